"""Files for events that the broker did not take: append, replay, forget. Survives kill -9.

Used by the direct producer, and by journal.py. Several processes may share a directory: each works in a
subdirectory it holds a lock on, and takes over those whose holder is gone.
"""

import fcntl
import os
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec

from libs.core.ids import uuid7_hex

_HEAD = struct.Struct(">II")  # length and CRC-32 of what follows
_SUFFIX = ".spool"


class Event(msgspec.Struct, array_like=True, gc=False):
    """One event on its way to a topic."""

    topic: str
    key: str
    body: bytes
    traceparent: str
    timestamp_ms: int


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Event)


@dataclass(frozen=True)
class Segment:
    """One closed file of events."""

    path: Path
    size: int


class Spool:
    """A queue of events in segment files, oldest first.

    Durability: ``append`` has handed its bytes to the kernel when it returns (kill -9 loses nothing), ``syncing``
    has them on disk (a crash of the machine loses nothing) unless ``durable`` is off, which spares the descriptors
    that are kept for it. A torn last record, left by such a crash, is skipped.
    """

    def __init__(self, directory: Path, *, segment_bytes: int = 4 * 1024 * 1024, durable: bool = True) -> None:
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._durable = durable
        self._locks: list[BinaryIO] = []
        self._own: Path | None = None
        self._active: BinaryIO | None = None
        self._active_size = 0
        self._closed: list[Segment] = []
        # Own descriptors of files that were closed before they were synced, for the thread that does it.
        self._unsynced: list[int] = []
        self.size_bytes = 0

    def open(self) -> None:
        """Take over what earlier processes left and be ready to append; raise OSError when the disk refuses."""
        self._directory.mkdir(parents=True, exist_ok=True)
        for left in sorted(path for path in self._directory.iterdir() if path.is_dir()):
            if self._lock(left):
                self._own = self._own or left
                self._adopt(left)
        if self._own is None:
            own = self._directory / uuid7_hex()
            own.mkdir()
            if not self._lock(own):
                raise OSError(f"{own} is locked by another process")
            self._own = own

    def append(self, events: Sequence[Event]) -> None:
        """Add events at the end; raise OSError when the disk refuses."""
        packed = bytearray()
        for event in events:
            payload = _encoder.encode(event)
            packed += _HEAD.pack(len(payload), zlib.crc32(payload)) + payload
        if self._active is None:
            assert self._own is not None, "open() comes first"
            self._active = (self._own / f"{uuid7_hex()}{_SUFFIX}").open("ab", buffering=0)
        self._active.write(packed)
        self._active_size += len(packed)
        self.size_bytes += len(packed)
        if self._active_size >= self._segment_bytes:
            self._close_active()

    def syncing(self) -> Callable[[], None]:
        """What waits, when called (in another thread), until everything appended so far is on disk."""
        descriptors, self._unsynced = self._unsynced, []
        if self._active is not None:
            descriptors.append(os.dup(self._active.fileno()))

        def sync() -> None:
            try:
                for descriptor in descriptors:
                    os.fdatasync(descriptor)
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)

        return sync

    def oldest(self) -> Segment | None:
        """The segment to replay next, closed to further events; None when everything is replayed."""
        if not self._closed and self._active is not None:
            self._close_active()
        return self._closed[0] if self._closed else None

    def closed(self) -> list[Segment]:
        """All segments that take no more events, oldest first."""
        return list(self._closed)

    def discard(self, segment: Segment) -> None:
        """Forget a segment whose events are confirmed."""
        self._closed.remove(segment)
        self.size_bytes -= segment.size
        segment.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of the files, so that another process may take them over; empty directories go."""
        if self._active is not None:
            self._close_active()
        self.syncing()()
        for lock in self._locks:
            folder = Path(lock.name).parent
            if not any(folder.glob(f"*{_SUFFIX}")):
                Path(lock.name).unlink(missing_ok=True)
                folder.rmdir()
            lock.close()
        self._locks.clear()

    @property
    def empty(self) -> bool:
        return not self._closed and self._active is None

    def _lock(self, folder: Path) -> bool:
        lock = (folder / "lock").open("wb")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            return False
        self._locks.append(lock)
        return True

    def _adopt(self, folder: Path) -> None:
        for path in sorted(folder.glob(f"*{_SUFFIX}")):
            segment = Segment(path, path.stat().st_size)
            self._closed.append(segment)
            self.size_bytes += segment.size
        # Names begin with the time, so this is the order of writing over all folders.
        self._closed.sort(key=lambda segment: segment.path.name)

    def _close_active(self) -> None:
        assert self._active is not None
        path = Path(self._active.name)
        if self._durable:
            self._unsynced.append(os.dup(self._active.fileno()))
        self._active.close()
        self._active = None
        self._closed.append(Segment(path, self._active_size))
        self._active_size = 0


def read(segment: Segment) -> Iterator[Event]:
    """The events of a segment in order, up to the first that is not whole."""
    raw = segment.path.read_bytes()
    at = 0
    while at + _HEAD.size <= len(raw):
        length, checksum = _HEAD.unpack_from(raw, at)
        at += _HEAD.size
        payload = raw[at : at + length]
        at += length
        if len(payload) < length or zlib.crc32(payload) != checksum:
            return
        yield _decoder.decode(payload)
