"""The dialects clients speak: each reads requests into the hub's form and renders answers out of it."""
