"""The ledger's rules without any IO: prices, what an outcome costs, signed descriptors."""
