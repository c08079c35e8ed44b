"""The ledger: balances, holds, charges and the usage log, in double entry."""
