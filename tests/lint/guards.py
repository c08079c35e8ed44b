"""Checks that nothing swallows every error, except the guards listed here with their reason.
Called through checks.CHECKS."""

import ast
from collections.abc import Iterator, Mapping

from tests.lint.tree import Finding, Tree

CATCH_ALL = frozenset({"Exception", "BaseException"})

# Every guard that must outlive any error, as "path::function", and why. One that guards nothing is an error.
ALLOWED: Mapping[str, str] = {
    "libs/kafka/chain.py::Chain._handle": "a batch that fails for any reason is handled record by record",
    "libs/kafka/chain.py::Chain._handle_one": "any error of a handler ends as a retry, a wait or a dead letter",
    "libs/kafka/subscription.py::Subscription._on_message": "a fault of the chain must not read a record in a loop",
    "libs/rpc/checks/server.py::CheckServer._guarded": "a broken message must not end a stream that all requests share",
    "libs/rpc/guard.py::Guard._call": "the outermost guard of a call: the caller gets INTERNAL without the text",
    "libs/rpc/guard.py::Guard._streaming.guarded": "the outermost guard of a stream: gRPC would tell the text",
    "libs/service/component.py::Periodic._loop": "a job that died would be missed only when its work is",
    "libs/service/service.py::Service._stop_part": "the parts stopped after a broken one still have something to flush",
    "services/edge/endpoints/chat.py::ChatEndpoint._serve": "the outermost guard of a request: the client gets a 500",
    "services/edge/endpoints/count_tokens.py::CountTokens.__call__": "the outermost guard of a request, as in chat",
    "services/ledger/shards.py::Shard._run": "a batch that breaks must not end the queue of many accounts",
    "tests/support/system.py::eventually": "whatever a check raises may be gone when it is asked again",
}


def _names(node: ast.expr | None) -> set[str]:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return {name}
        case ast.Tuple(elts=parts):
            return set().union(*(_names(part) for part in parts))
    return set()


def _swallows(node: ast.AST) -> str | None:
    """How a node catches everything without passing it on, or None."""
    match node:
        case ast.ExceptHandler(body=[*_, ast.Raise(exc=None)]):
            return None
        case ast.ExceptHandler(type=None):
            return "bare except"
        case ast.ExceptHandler(type=caught) if found := _names(caught) & CATCH_ALL:
            return f"except {min(found)}"
        case ast.Call(func=ast.Name(id="suppress") | ast.Attribute(attr="suppress"), args=caught_all):
            if found := set().union(*(_names(part) for part in caught_all)) & CATCH_ALL:
                return f"suppress({min(found)})"
    return None


def _walk(node: ast.AST, scope: str) -> Iterator[tuple[str, ast.AST]]:
    """Every node with the dotted name of the function or class around it."""
    for child in ast.iter_child_nodes(node):
        inner = scope
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{scope}.{child.name}" if scope else child.name
        yield inner, child
        yield from _walk(child, inner)


def catch_all(tree: Tree, allowed: Mapping[str, str] | None = None) -> Iterator[Finding]:
    """`except Exception` and its kin stand only where the list allows; a bare `raise` at the end is fine."""
    reasons = ALLOWED if allowed is None else allowed
    unused = set(reasons)
    for source in tree.python():
        for scope, node in _walk(source.syntax, ""):
            if (how := _swallows(node)) is None:
                continue
            place = f"{source.path}::{scope}"
            unused.discard(place)
            if place not in reasons:
                advice = "catch what can happen, or list the guard with its reason in tests/lint/guards.py"
                yield Finding(source.path, getattr(node, "lineno", 1), f"{how} in {scope or 'module'}: {advice}")
    for place in sorted(unused):
        path, _, scope = place.partition("::")
        yield Finding(path, 1, f"{scope} no longer catches everything: take it off the list in tests/lint/guards.py")
