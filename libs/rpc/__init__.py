"""gRPC as every service uses it: server and client defaults, error mapping, coalesced check streams."""
