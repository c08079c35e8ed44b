"""The router: which upstream serves a request, in which order, at which price. See README.md."""
