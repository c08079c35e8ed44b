"""Checks on text: nothing unfinished, no registry hosts, no paths of one machine.
Called through checks.CHECKS. Words are put together from pieces, so that this file passes its own check."""

import ast
import re
from collections.abc import Iterator

from tests.lint.tree import Finding, Tree

UNFINISHED = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME")) + r")\b")
UNFINISHED_ERROR = "NotImplemented" + "Error"

_HOSTS = (
    ("py", "pi.org"),
    ("files.python", "hosted.org"),
    ("registry.npm", "js.org"),
    ("registry.yarn", "pkg.com"),
    ("repo.ma", "ven.apache.org"),
    ("repo1.ma", "ven.org"),
    ("proxy.gol", "ang.org"),
    ("crates", ".io"),
    ("ruby", "gems.org"),
    ("conda.ana", "conda.org"),
)
REGISTRY = re.compile("|".join(re.escape(head + tail) for head, tail in _HOSTS), re.IGNORECASE)

_OUTSIDE = ("con" + "tract", "des" + "ign", "ca" + "ses", "sam" + "ples", "com" + "pat", "ben" + "ch")
_START = r"(?<![\w.~}\])-])/"
MACHINE_PATH = re.compile(
    _START + "(wo" + "rk|Us" + r"ers)/[\w.-]"
    r"|\.\./sha" + r"red\b"
    r"|(?<![\w./-])sha" + r"red/(" + "|".join(_OUTSIDE) + r")\b"
)
USER_PATH = re.compile(_START + "(tm" + "p|ro" + "ot|ho" + r"me)/[\w.-]")

# Paths in these files lie inside a container.
CONTAINER_FILES = ("deploy/", "docker-compose.yml")


def unfinished(tree: Tree) -> Iterator[Finding]:
    """What is not done is not in the tree as a promise."""
    for source in tree.written():
        for number, line in enumerate(source.lines, start=1):
            if found := UNFINISHED.search(line):
                yield Finding(source.path, number, f"{found[0]}: finish it or leave it out")
    for source in tree.python():
        for node in ast.walk(source.syntax):
            if isinstance(node, ast.Name) and node.id == UNFINISHED_ERROR:
                yield Finding(source.path, node.lineno, f"{node.id}: use an abstract method or a protocol")


def places(tree: Tree) -> Iterator[Finding]:
    """The project names no package registry and no folder of the machine it was written on."""
    for source in tree.sources:
        contained = source.path.startswith(CONTAINER_FILES)
        patterns = (MACHINE_PATH,) if contained else (MACHINE_PATH, USER_PATH)
        for number, line in enumerate(source.lines, start=1):
            if found := REGISTRY.search(line):
                yield Finding(source.path, number, f"names the package registry {found[0]}")
            for pattern in patterns:
                if found := pattern.search(line):
                    yield Finding(source.path, number, f"names a local path: {found[0]}")
