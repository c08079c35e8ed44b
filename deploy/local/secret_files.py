"""Small files that only their owner may read: secrets made once, the demo key, the settings of the last run.
Called by the launcher, its wiring and the demo account.
"""

import contextlib
import os
import secrets
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Replace `path` by a file with mode 0600 in one step, so that a reader sees the old text or the new."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.new")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        # What is encrypted or hashed with a secret outlives a power cut; so must the secret.
        os.fsync(file.fileno())
    unfinished.replace(path)


def secret_once(path: Path) -> str:
    """Return the secret kept in `path`, made on first use: 64 hex digits."""
    with contextlib.suppress(FileNotFoundError):
        kept = path.read_text(encoding="utf-8").strip()
        if kept:
            return kept
    made = secrets.token_hex(32)
    write_private(path, made + "\n")
    return made
