"""The gateway under measurement: every service a process of its own, on real stores, with everything on.
Called by tests.bench.run and tests.bench.comparison; the only module here that knows how the system starts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gateway:
    """A running system. `base_url` has no path; `stop` ends all of it and may be called once.

    pids_by_name: root processes of each service and store (`edge`, `ledger`, ..., `postgres`, `kafka`).
    parts: what the stores are, in words for the report (`kafka`: `Apache Kafka 4.1`).
    """

    base_url: str
    key: str
    free_model: str
    paid_model: str
    pids_by_name: Mapping[str, Sequence[int]]
    parts: Mapping[str, str]
    stop: Callable[[], None]


def start_gateway(upstream_url: str, upstream_model: str) -> Gateway:
    raise NotImplementedError
