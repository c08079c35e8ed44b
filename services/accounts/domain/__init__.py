"""Accounts, keys and people as values, and what may be asked for. Pure: no clock, no IO.

Called by the modules of services/accounts (contract: Authentication and API keys, Per-tool keys).
"""
