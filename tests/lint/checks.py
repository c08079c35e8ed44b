"""The list of all house-rule checks and how they are run over a tree.
Called by the command and by the tests."""

from collections.abc import Callable, Iterator, Mapping

from tests.lint import doors, guards, layout, money, words
from tests.lint.tree import Finding, Tree

CHECKS: Mapping[str, Callable[[Tree], Iterator[Finding]]] = {
    "length": layout.length,
    "names": layout.names,
    "syntax": layout.syntax,
    "docstrings": layout.docstrings,
    "service-files": layout.service_files,
    "money": money.strict,
    "money-names": money.by_name,
    "money-columns": money.columns,
    "doors": doors.doors,
    "unfinished": words.unfinished,
    "places": words.places,
    "guards": guards.catch_all,
}


def run(tree: Tree) -> list[Finding]:
    """All findings of all checks, by file and line."""
    return sorted(finding for check in CHECKS.values() for finding in check(tree))
