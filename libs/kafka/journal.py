"""What a broker that keeps nothing has confirmed, in files: sent again by the next run.

Used by producer.py where ``KafkaSettings.keeps_records`` is off.
"""

from collections.abc import Sequence
from pathlib import Path

from libs.kafka.spool import Event, Segment, Spool


class Journal:
    """Events of this run and of those before it, oldest first; beyond ``limit_bytes`` the oldest are dropped.

    Bytes are in the kernel's hands when ``append`` returns, and not forced to disk: a machine that goes down
    loses the last seconds.
    """

    def __init__(self, directory: Path, *, limit_bytes: int) -> None:
        self._files = Spool(directory, segment_bytes=min(4 * 1024 * 1024, limit_bytes // 4), durable=False)
        self._limit_bytes = limit_bytes
        self._earlier: list[Segment] = []

    def open(self) -> None:
        """Take over what earlier runs left; raise OSError when the disk refuses."""
        self._files.open()
        self._earlier = self._files.closed()

    def earlier(self) -> list[Segment]:
        """What runs before this one left and nobody has forgotten yet."""
        return list(self._earlier)

    def append(self, events: Sequence[Event]) -> None:
        """Add events of this run; raise OSError when the disk refuses."""
        self._files.append(events)
        while self._files.size_bytes > self._limit_bytes and (oldest := self._files.oldest()) is not None:
            self._drop(oldest)

    def forget(self, segment: Segment) -> None:
        """Drop a segment of an earlier run."""
        if segment in self._earlier:
            self._drop(segment)

    def close(self) -> None:
        self._files.close()

    def _drop(self, segment: Segment) -> None:
        self._files.discard(segment)
        if segment in self._earlier:
            self._earlier.remove(segment)
