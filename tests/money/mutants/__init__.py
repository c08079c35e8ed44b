"""Faults put into the ledger on purpose, each of which a suite must notice: `make mutants`."""

from tests.money.mutants.decisions import DECISIONS
from tests.money.mutants.movements import MOVEMENTS

FAULTS = (*DECISIONS, *MOVEMENTS)
