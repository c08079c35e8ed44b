"""Checks on files as such: length, names, module docstrings, the set of files every service has.
Called through checks.CHECKS."""

import ast
from collections.abc import Iterator
from pathlib import PurePosixPath

from tests.lint.tree import Finding, Tree

LONGEST = 400
LONG = 300
SOURCE_SUFFIXES = (".py", ".sql", ".proto", ".lua", ".sh", ".js", ".css", ".html")
EMPTY_NAMES = frozenset({"utils", "util", "helpers", "helper", "common", "manager"})
# Folders of services/ that serve nothing.
COMMANDS = frozenset({"admin"})
SERVICE_FILES = ("README.md", "settings.py", "app.py", "telemetry.py")


def length(tree: Tree) -> Iterator[Finding]:
    """A source file fits into a head: above 300 lines a warning, above 400 an error."""
    for source in tree.written(*SOURCE_SUFFIXES):
        count = len(source.lines)
        if count > LONGEST:
            yield Finding(source.path, count, f"{count} lines, at most {LONGEST} are allowed: split by meaning")
        elif count > LONG:
            yield Finding(source.path, count, f"{count} lines, {LONG} are meant to suffice", "warning")


def names(tree: Tree) -> Iterator[Finding]:
    """A module or package is named after what it does."""
    for source in tree.python():
        path = PurePosixPath(source.path)
        for name in (*path.parent.parts, path.stem):
            if name in EMPTY_NAMES:
                yield Finding(source.path, 1, f"{name!r} says nothing about the content")


def syntax(tree: Tree) -> Iterator[Finding]:
    """Every Python file parses; the other checks see nothing in one that does not."""
    for source in tree.python():
        if isinstance(source.parsed, SyntaxError):
            yield Finding(source.path, source.parsed.lineno or 1, f"does not parse: {source.parsed.msg}")


def docstrings(tree: Tree) -> Iterator[Finding]:
    """A module says what it is for and who calls it; an empty package file has nothing to say."""
    for source in tree.python():
        if source.lines and ast.get_docstring(source.syntax) is None:
            yield Finding(source.path, 1, "no module docstring: what is it for, who calls it")


def service_files(tree: Tree) -> Iterator[Finding]:
    """Every service has the files a reader looks for first."""
    present: dict[str, set[str]] = {}
    for source in tree.sources:
        match PurePosixPath(source.path).parts:
            case ("services", service, *inner):
                if inner and service not in COMMANDS:
                    present.setdefault(service, set()).add("/".join(inner))
    for service, inside in sorted(present.items()):
        for name in SERVICE_FILES:
            if name not in inside:
                yield Finding(f"services/{service}/{name}", 1, "every service has this file")
