"""The endpoints of the public API, one module each."""
