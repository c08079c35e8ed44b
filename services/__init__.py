"""The services of kenari; each knows the others only over the wire."""
