"""Checks who may import which wire library: one door each.
Called through checks.CHECKS. Import arrows between our own packages are import-linter's."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch

from tests.lint.tree import Finding, Tree


@dataclass(frozen=True, slots=True)
class Door:
    """A set of packages and the only files that may import them (tests may import anything)."""

    packages: frozenset[str]
    allowed: tuple[str, ...]
    advice: str


DOORS = (
    Door(frozenset({"faststream", "aiokafka"}), ("libs/kafka/*",), "only libs/kafka talks to Kafka"),
    Door(
        frozenset({"grpc", "grpc_health", "grpc_reflection", "grpc_status"}),
        ("libs/rpc/*", "services/*/*rpc.py", "services/*/clients.py"),
        "only libs/rpc, a service's rpc.py (or *_rpc.py) and clients.py touch gRPC",
    ),
)


def imported(node: ast.AST) -> list[str]:
    """The modules a statement or a call imports by absolute name, also inside a function."""
    match node:
        case ast.Import(names=aliases):
            return [alias.name for alias in aliases]
        case ast.ImportFrom(module=str(module), level=0):
            return [module]
        case ast.Call(
            func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
            args=[ast.Constant(value=str(module)), *_],
        ):
            return [module]
    return []


def doors(tree: Tree) -> Iterator[Finding]:
    """Kafka and gRPC libraries are imported behind their door only."""
    for source in tree.python():
        if source.path.startswith("tests/"):
            continue
        closed = [door for door in DOORS if not any(fnmatch(source.path, allowed) for allowed in door.allowed)]
        for node in ast.walk(source.syntax):
            for module in imported(node):
                for door in closed:
                    if module.partition(".")[0] in door.packages:
                        yield Finding(source.path, getattr(node, "lineno", 1), f"imports {module}: {door.advice}")
