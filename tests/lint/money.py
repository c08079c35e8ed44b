"""Checks that no floating point touches money: strict where money is computed, by name everywhere else.
Called through checks.CHECKS."""

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatch

from tests.lint.tree import Finding, Tree

STRICT_FILES = (
    "services/ledger/domain.py",
    "services/ledger/domain/*.py",
    "services/ledger/domain_*.py",
    "libs/core/money.py",
    "libs/core/money/*.py",
    "libs/core/money_*.py",
)
MONEY_NAME = re.compile(r"(^|_)(micro_idr|idr|rupiah|balance|price|amount|cost|fee)$")
FLOAT_COLUMN = re.compile(r"\b(real|float|float4|float8|double\s+precision)\b", re.IGNORECASE)


def _mentions_float(annotation: ast.expr | None) -> bool:
    if annotation is None:
        return False
    return any(isinstance(node, ast.Name) and node.id == "float" for node in ast.walk(annotation))


def _annotations(node: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    """The annotated names a node introduces: arguments, variables and fields, results."""
    match node:
        case ast.arg(arg=name, annotation=annotation):
            yield name, annotation
        case ast.AnnAssign(target=ast.Name(id=name) | ast.Attribute(attr=name), annotation=annotation):
            yield name, annotation
        case ast.FunctionDef(name=name, returns=returns) | ast.AsyncFunctionDef(name=name, returns=returns):
            yield name, returns


def _float_use(node: ast.AST) -> str | None:
    match node:
        case ast.Constant(value=float()):
            return f"float literal {node.value!r}"
        case ast.Call(func=ast.Name(id="float")):
            return "call of float()"
        case ast.BinOp(op=ast.Div()) | ast.AugAssign(op=ast.Div()):
            return "true division gives a float: use // and say how it rounds"
        case ast.BinOp(op=ast.Pow(), right=ast.UnaryOp(op=ast.USub())):
            return "a negative power gives a float"
    if any(_mentions_float(annotation) for _, annotation in _annotations(node)):
        return "float annotation"
    return None


def strict(tree: Tree) -> Iterator[Finding]:
    """In the ledger's domain and the money module: no float in any form (isinstance against it is fine)."""
    for source in tree.python():
        if any(fnmatch(source.path, pattern) for pattern in STRICT_FILES):
            for node in ast.walk(source.syntax):
                if use := _float_use(node):
                    yield Finding(source.path, getattr(node, "lineno", 1), f"money is an integer: {use}")


def _is_money(node: ast.expr) -> bool:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return MONEY_NAME.search(name) is not None
    return False


def by_name(tree: Tree) -> Iterator[Finding]:
    """In services and libs: what is named like money is not annotated, converted or divided as a float."""
    for source in tree.python():
        if not source.path.startswith(("services/", "libs/")):
            continue
        for node in ast.walk(source.syntax):
            line = getattr(node, "lineno", 1)
            for name, annotation in _annotations(node):
                if MONEY_NAME.search(name) and _mentions_float(annotation):
                    yield Finding(source.path, line, f"{name} is money and must not be a float")
            match node:
                case ast.Call(func=ast.Name(id="float"), args=[argument]) if _is_money(argument):
                    yield Finding(source.path, line, f"float() of money: {ast.unparse(argument)}")
                case ast.BinOp(op=ast.Div(), left=left, right=right) if _is_money(left) or _is_money(right):
                    yield Finding(source.path, line, f"true division of money: {ast.unparse(node)}")


def columns(tree: Tree) -> Iterator[Finding]:
    """No floating point in the ledger's tables and functions."""
    for source in tree.written(".sql"):
        if source.path.startswith("services/ledger/"):
            for number, line in enumerate(source.lines, start=1):
                if FLOAT_COLUMN.search(line.partition("--")[0]):
                    yield Finding(source.path, number, "money is an integer: no floating point types in SQL")
