"""Asks a Kafka broker whether it serves: the one question of its protocol that start-up needs.
Called by the Kafka servers in deploy.local; everything else speaks through libs.kafka.
"""

import socket
import struct

_METADATA = 3
_VERSION = 1
_NO_TOPICS = struct.pack(">i", 0)


def broker_serves(host: str, port: int, timeout: float = 2.0) -> bool:
    """Whether the address answers a metadata request and the cluster has a broker in service."""
    client = b"ready"
    body = struct.pack(">hhih", _METADATA, _VERSION, 1, len(client)) + client + _NO_TOPICS
    try:
        with socket.create_connection((host, port), timeout=timeout) as connection:
            connection.sendall(struct.pack(">i", len(body)) + body)
            # Length, correlation id, number of brokers.
            head = _read(connection, 12)
    except OSError:
        return False
    return len(head) == 12 and struct.unpack(">iii", head)[2] > 0


def _read(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        part = connection.recv(size - len(received))
        if not part:
            break
        received += part
    return received
