"""Reads what the suite prints and counts it, over all faces.
Called by tests.compat.suite line by line, and by tests.compat.__main__ for the end of the report.
"""

import re
from dataclasses import dataclass, field

_LINE = re.compile(r"(PASS|FAIL|SKIP) (\S+)\s*(.*)")


@dataclass(slots=True)
class Tally:
    """`failures`: face, check and what the client said, in the order they came."""

    passed: int = 0
    skipped: int = 0
    failures: list[tuple[str, str, str]] = field(default_factory=list)

    def take(self, face: str, line: str) -> None:
        """Count one line of the suite's output; lines that are no check's result change nothing."""
        match = _LINE.fullmatch(line.rstrip())
        if match is None:
            return
        result, check, reason = match.groups()
        if result == "PASS":
            self.passed += 1
        elif result == "SKIP":
            self.skipped += 1
        else:
            self.failures.append((face, check, reason))

    def end(self, face: str, exit_code: int, passed_before: int) -> None:
        """Count a suite that proved nothing as a failure: it ended badly without naming one, or ran no check."""
        named = any(failed_on == face for failed_on, _, _ in self.failures)
        if named:
            return
        if exit_code != 0:
            self.failures.append((face, "suite", f"ended with code {exit_code}"))
        elif self.passed == passed_before:
            self.failures.append((face, "suite", "ran no check"))

    def text(self) -> str:
        """Every failure on a line of its own, then one line with the figures."""
        lines = [f"FAIL {face}: {check} {reason}".rstrip() for face, check, reason in self.failures]
        return "\n".join([*lines, f"{self.passed} passed, {len(self.failures)} failed"])
