"""`python -m tests.lint`: print every breach of a house rule and fail if one is an error.
Called by `make lint`."""

import sys
from pathlib import Path

from tests.lint.checks import CHECKS, run
from tests.lint.tree import Tree


def main(root: Path) -> int:
    """Exit code 1 when the tree under root breaks a rule, 0 when it does not (warnings allowed)."""
    tree = Tree.tracked(root)
    findings = run(tree)
    for finding in findings:
        print(finding)
    errors = sum(finding.level == "error" for finding in findings)
    warnings = len(findings) - errors
    print(f"house rules: {len(CHECKS)} checks, {len(tree.sources)} files, {errors} errors, {warnings} warnings")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parents[2]))
