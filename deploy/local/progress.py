"""The lines by which `make run` shows what it is doing: one per step, with its time.
Called by the launcher, from several threads.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Progress:
    """Prints whole lines, never two mixed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return time.monotonic() - self._began

    def say(self, step: str, text: str) -> None:
        """One line about a step."""
        with self._lock:
            print(f"  {step:<12} {text}", flush=True)

    @contextmanager
    def step(self, name: str, done: str) -> Iterator[None]:
        """Print the step with its time when the block ends without an error; first that it began if it is slow."""
        slow = threading.Timer(1.5, self.say, (name, "..."))
        slow.daemon = True
        slow.start()
        began = time.monotonic()
        try:
            yield
        finally:
            slow.cancel()
        self.say(name, f"{done} ({time.monotonic() - began:.1f} s)")
