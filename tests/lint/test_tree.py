"""The tree as it stands keeps the house rules.
Run with the unit tests; `python -m tests.lint` prints the same, with warnings."""

from pathlib import Path

import pytest

from tests.lint.checks import CHECKS
from tests.lint.tree import Tree


@pytest.fixture(scope="module")
def tree() -> Tree:
    return Tree.tracked(Path(__file__).resolve().parents[2])


@pytest.mark.parametrize("check", CHECKS)
def test_the_tree_keeps_the_house_rule(tree: Tree, check: str) -> None:
    errors = [str(finding) for finding in CHECKS[check](tree) if finding.level == "error"]

    assert errors == []
