"""The faults of `make mutants` fit the code as it is."""

from pathlib import Path

import pytest

from tests.money.mutants import FAULTS
from tests.money.mutants.faults import Fault, applied

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_has_its_place(fault: Fault) -> None:
    text = (ROOT / fault.path).read_text()

    assert applied(fault, text) != text
