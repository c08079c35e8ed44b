"""What every check works on: a set of files with their text and syntax trees, and the findings it returns.
Built from the repository by the command and the tests, from a temporary folder by the planted cases."""

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

GENERATED = "libs/gen/"


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One breach of a house rule; a warning is printed but does not fail."""

    path: str
    line: int
    message: str
    level: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        prefix = "warning: " if self.level == "warning" else ""
        return f"{self.path}:{self.line}: {prefix}{self.message}"


class Source:
    """One file, read and parsed at most once."""

    def __init__(self, root: Path, path: str) -> None:
        self.path = path
        self._file = root / path

    @cached_property
    def text(self) -> str | None:
        """The text, or None for a file that is not UTF-8."""
        try:
            return self._file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            return None

    @cached_property
    def lines(self) -> list[str]:
        """The lines of the text, without their ends."""
        return (self.text or "").splitlines()

    @cached_property
    def parsed(self) -> ast.Module | SyntaxError:
        """The syntax tree of a Python file, or why there is none."""
        try:
            return ast.parse(self.text or "", self.path)
        except SyntaxError as error:
            return error

    @property
    def syntax(self) -> ast.Module:
        """The syntax tree of a Python file; empty when it does not parse, which has its own check."""
        return self.parsed if isinstance(self.parsed, ast.Module) else ast.Module([], [])


class Tree:
    """The files under one root that the house rules apply to."""

    def __init__(self, root: Path, paths: list[str]) -> None:
        self.sources = [Source(root, path) for path in sorted(paths) if (root / path).is_file()]

    @classmethod
    def tracked(cls, root: Path) -> "Tree":
        """What git tracks or would track; raises CalledProcessError outside a repository."""
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
        return cls(root, [path for path in listed.stdout.split("\0") if path])

    def written(self, *suffixes: str) -> Iterator[Source]:
        """Files with one of these endings (all when none is given) that people write."""
        for source in self.sources:
            if not source.path.startswith(GENERATED) and (not suffixes or source.path.endswith(suffixes)):
                yield source

    def python(self) -> Iterator[Source]:
        """Python files that people write."""
        return self.written(".py")
