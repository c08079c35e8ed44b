"""gRPC as every service uses it: server and client defaults, error mapping, coalesced check streams."""

import os

# The core of gRPC writes lines of its own to standard error, which is for our JSON lines; its errors reach us anyway.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
