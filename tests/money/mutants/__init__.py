"""Faults put into the ledger on purpose, each of which a suite must notice: `make mutants`."""
