"""What the suite prints, counted.
Run by pytest.
"""

import pytest

from tests.compat.tally import Tally


def test_results_of_all_faces_add_up_and_failures_come_before_the_figures() -> None:
    tally = Tally()

    tally.take("openai", "PASS codex/plain\n")
    tally.take("openai", "SKIP codex/image in COMPAT_SKIP\n")
    tally.take("anthropic", "FAIL codex/plain AssertionError: got 1, want 2\n")

    assert tally.text().splitlines() == [
        "FAIL anthropic: codex/plain AssertionError: got 1, want 2",
        "1 passed, 1 failed",
    ]
    assert tally.skipped == 1


@pytest.mark.parametrize("line", ["# codex: 5s", "3 passed, 1 failed", "  | FAIL is what a log may say", ""])
def test_other_lines_count_for_nothing(line: str) -> None:
    tally = Tally()

    tally.take("openai", line)

    assert tally.text() == "0 passed, 0 failed"


@pytest.mark.parametrize(
    ("lines", "exit_code", "failed"),
    [
        (["PASS codex/plain"], 0, 0),
        (["FAIL codex/plain no"], 1, 1),
        (["PASS codex/plain"], 2, 1),
        ([], 0, 1),
    ],
)
def test_a_suite_that_proves_nothing_is_a_failure(lines: list[str], exit_code: int, failed: int) -> None:
    tally = Tally()
    tally.take("anthropic", "PASS codex/plain")
    before = tally.passed

    for line in lines:
        tally.take("openai", line)
    tally.end("openai", exit_code, before)

    assert len(tally.failures) == failed
