"""Files in the repository that are made from others: gRPC code, event schemas, AsyncAPI documents.
Used by `make proto`, `make contracts` and, to see that they are fresh, by `make lint` and a test.
"""
