"""Which rules of the contract have a passing test: a pytest plugin and a command.
pytest loads it through `addopts`; `python -m tests.contract.coverage` prints and writes the totals."""

import contextlib
import io
import json
import sys
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.contract import results
from tests.contract.results import Outcome
from tests.contract.rulebook import Rule, rules

ROOT = Path(__file__).resolve().parents[2]
TOTALS_FILE = Path("build") / "contract.json"
MARKER = "rule"
PROPERTY = "rules"


def rule_ids(item: pytest.Item) -> tuple[str, ...]:
    """The rules a test says it proves, from its own marker and those of its class and module."""
    found = [rule_id for mark in item.iter_markers(MARKER) for rule_id in mark.args]
    return tuple(dict.fromkeys(found))


def marker_fault(item: pytest.Item) -> str | None:
    """What is wrong with the rule markers of a test, or None."""
    for mark in item.iter_markers(MARKER):
        if not mark.args or mark.kwargs:
            return f"{item.nodeid}: the rule marker takes one or more rule ids and nothing else"
        for rule_id in mark.args:
            if rule_id not in rules():
                return f"{item.nodeid}: unknown contract rule {rule_id!r} (see tests/contract/rules)"
    return None


class Recorder:
    """Outcomes of one pytest run; with parallel workers, gathered where their reports arrive."""

    def __init__(self) -> None:
        self.outcomes: dict[str, Outcome] = {}
        self.proves: dict[str, tuple[str, ...]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take in one phase (setup, call or teardown) of one test."""
        proves = dict(report.user_properties).get(PROPERTY)
        if isinstance(proves, str):
            self.proves[report.nodeid] = tuple(proves.split())
        elif not report.failed:
            # A crashed worker reports a failure without properties, and that must be noted.
            return
        known = self.outcomes.get(report.nodeid)
        if report.failed or known == "failed":
            self.outcomes[report.nodeid] = "failed"
        elif report.skipped or known == "skipped" or hasattr(report, "wasxfail"):
            self.outcomes[report.nodeid] = "skipped"
        elif report.when == "call":
            self.outcomes[report.nodeid] = "passed"

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Merge this run into the remembered results."""
        if self.outcomes:
            results.merge(session.config.rootpath, self.outcomes)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say in one line what this run proved and which rules it found broken."""
        if not self.proves:
            return
        proven, broken = judge(self.proves, self.outcomes)
        line = f"contract: {len(proven)} rules proven by this run"
        if broken:
            line += f", {len(broken)} broken: {' '.join(sorted(broken))}"
        terminalreporter.write_line(line)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker and record outcomes, except in a parallel worker, whose controller does that."""
    config.addinivalue_line("markers", f"{MARKER}(*ids): the test proves these rules of the contract")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder())


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turn a marker with an unknown rule into a collection error, also under parallel workers."""
    report = yield
    items = [node for node in report.result or () if isinstance(node, pytest.Item)]
    if faults := [fault for item in items if (fault := marker_fault(item))]:
        report.outcome = "failed"
        report.longrepr = "\n".join(faults)
        report.result = []
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the rules travel with every report of their test."""
    for item in items:
        if proves := rule_ids(item):
            item.user_properties.append((PROPERTY, " ".join(proves)))


def judge(proves: Mapping[str, Iterable[str]], outcomes: Mapping[str, Outcome]) -> tuple[set[str], set[str]]:
    """Rules proven (a test passed, none failed) and rules broken (a test failed).

    `proves` holds the rules of each existing test; outcomes of other tests are stale and do not count.
    """
    passed: set[str] = set()
    broken: set[str] = set()
    for test, ids in proves.items():
        outcome = outcomes.get(test)
        if outcome == "passed":
            passed.update(ids)
        elif outcome == "failed":
            broken.update(ids)
    return passed - broken, broken


@dataclass(slots=True)
class Collected:
    """The tests that exist now, with the rules they prove, filled while pytest collects."""

    proves: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Note every test before anything deselects it."""
        for item in items:
            if proves := rule_ids(item):
                self.proves[item.nodeid] = proves


def collect(root: Path) -> tuple[dict[str, tuple[str, ...]], str]:
    """The existing tests with their rules, and pytest's complaint when it could not collect them all."""
    collected = Collected()
    output = io.StringIO()
    with contextlib.chdir(root), contextlib.redirect_stdout(output):
        code = pytest.main(["--collect-only", "-q", "-W", "ignore", "tests"], plugins=[collected])
    complete = code in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    return collected.proves, "" if complete else output.getvalue()


def ranges(ids: Iterable[str]) -> str:
    """Rule numbers in short form: {"CHAT-001", "CHAT-002", "CHAT-007"} gives "001-002 007"."""
    numbers = sorted(int(rule_id.rpartition("-")[2]) for rule_id in ids)
    spans: list[tuple[int, int]] = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1] = (spans[-1][0], number)
        else:
            spans.append((number, number))
    return " ".join(f"{low:03}" if low == high else f"{low:03}-{high:03}" for low, high in spans)


def totals(book: Iterable[Rule], proven: set[str]) -> dict[str, dict[str, int]]:
    """Rules and covered rules by section."""
    table: dict[str, dict[str, int]] = {}
    for rule in book:
        row = table.setdefault(rule.section, {"rules": 0, "covered": 0})
        row["rules"] += 1
        row["covered"] += rule.id in proven
    return table


def render(book: Mapping[str, Rule], proven: set[str], broken: set[str]) -> str:
    """The printed table: sections with the numbers of their covered rules, owners, total."""
    lines = [f"{'section':<20}{'covered':>8}{'rules':>7}  rules covered"]
    for section, row in totals(book.values(), proven).items():
        shown = ranges(rule_id for rule_id in proven if book[rule_id].section == section)
        lines.append(f"{section:<20}{row['covered']:>8}{row['rules']:>7}  {shown}".rstrip())
    by_owner: dict[str, list[bool]] = {}
    for rule in book.values():
        by_owner.setdefault(rule.owner, []).append(rule.id in proven)
    shares = (f"{owner} {sum(marks)}/{len(marks)}" for owner, marks in sorted(by_owner.items()))
    lines += ["", "by owner: " + ", ".join(shares)]
    if broken:
        lines.append("with a failing test: " + " ".join(sorted(broken)))
    lines.append(f"total: {len(proven)} of {len(book)} rules have a passing test")
    return "\n".join(lines)


def main(root: Path = ROOT) -> int:
    """Print the coverage of the remembered results and write the totals file; 1 if tests fail to collect."""
    proves, complaint = collect(root)
    proven, broken = judge(proves, results.load(root))
    book = rules()
    print(render(book, proven, broken))
    path = root / TOTALS_FILE
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(totals(book.values(), proven), indent=2) + "\n", encoding="utf-8")
    if complaint:
        print(f"{complaint}\nsome tests could not be collected; their rules are not counted", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
