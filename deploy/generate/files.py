"""A set of generated files: written to the tree, or compared with what is there.
Called by the command; each generator returns what its files should hold.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Generated:
    """What belongs into some folders, all of it: text by path below the repository's root."""

    folders: tuple[str, ...]
    suffixes: tuple[str, ...]
    texts: Mapping[str, str]

    def stale(self, root: Path = ROOT) -> list[str]:
        """Paths that are missing, differ, or should not be there."""
        present = self._present(root)
        wrong = {path for path, text in self.texts.items() if path not in present or _read(root / path) != text}
        return sorted(wrong | (present - self.texts.keys()))

    def write(self, root: Path = ROOT) -> list[str]:
        """Bring the folders to this state; return the paths that changed."""
        changed = self.stale(root)
        for path in changed:
            if path in self.texts:
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(self.texts[path], encoding="utf-8")
            else:
                (root / path).unlink()
        return changed

    def _present(self, root: Path) -> set[str]:
        return {
            str(file.relative_to(root))
            for folder in self.folders
            for file in (root / folder).rglob("*")
            if file.is_file() and file.suffix in self.suffixes
        }


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
