"""The coverage plugin counts a rule only when an existing test passed and none failed.
Each case runs pytest and the command over a small tree of its own."""

import contextlib
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract import coverage, results
from tests.contract.rulebook import rules


@contextlib.contextmanager
def fresh_imports() -> Iterator[None]:
    """Forget the test modules imported inside, so that a rewritten file is read again."""
    before = set(sys.modules)
    try:
        yield
    finally:
        for name in set(sys.modules) - before:
            if name.rpartition(".")[2].startswith("test_"):
                del sys.modules[name]


class Tree:
    """A project with only a tests folder, in which pytest and the command run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "tests").mkdir()
        options = "--strict-markers -q --import-mode=importlib -p no:cacheprovider -p tests.contract.coverage"
        (root / "pytest.ini").write_text(
            f"[pytest]\naddopts = {options}\nasyncio_default_fixture_loop_scope = function\n"
        )

    def write(self, name: str, body: str) -> None:
        """Put a test module into the tree."""
        (self.root / "tests" / name).write_text("import pytest\nrule = pytest.mark.rule\n" + body)

    def pytest(self, path: str = "tests") -> tuple[int, str]:
        """Run pytest there; its exit code and output."""
        output = io.StringIO()
        with fresh_imports(), contextlib.chdir(self.root), contextlib.redirect_stdout(output):
            code = pytest.main([path])
        return int(code), output.getvalue()

    def command(self) -> int:
        """Run the coverage command there; its exit code."""
        with fresh_imports():
            return coverage.main(self.root)

    def covered(self) -> dict[str, int]:
        """What the command writes for the sections that have something covered."""
        assert self.command() == 0
        table = json.loads((self.root / coverage.TOTALS_FILE).read_text())
        return {section: row["covered"] for section, row in table.items() if row["covered"]}


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    # A file rewritten within one tick of its clock would otherwise run from its old byte code.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return Tree(tmp_path)


def test_only_a_rule_with_a_passing_and_no_failing_test_counts(tree: Tree) -> None:
    # given: one rule that holds, one proven and broken at once, one skipped, two expected to fail, one leaky
    tree.write(
        "test_a.py",
        "@pytest.fixture\n"
        "def leaky():\n    yield\n    raise OSError('left open')\n"
        "@rule('CHAT-001', 'MSG-001')\ndef test_holds(): pass\n"
        "@rule('CHAT-002')\ndef test_once(): pass\n"
        "@rule('CHAT-002')\ndef test_never(): assert False\n"
        "@rule('CHAT-003')\ndef test_later(): pytest.skip('no')\n"
        "@rule('CHAT-004')\n@pytest.mark.xfail\ndef test_wrong(): assert False\n"
        "@rule('CHAT-005')\n@pytest.mark.xfail\ndef test_lucky(): pass\n"
        "@rule('CHAT-006')\ndef test_leaks(leaky): pass\n",
    )

    _, output = tree.pytest()

    assert "contract: 2 rules proven by this run, 2 broken: CHAT-002 CHAT-006" in output
    assert tree.covered() == {"chat": 1, "messages": 1}


def test_runs_add_up_and_the_last_outcome_of_a_test_decides(tree: Tree) -> None:
    # given: two invocations over different files, the second one failing
    tree.write("test_a.py", "@rule('CHAT-001')\ndef test_a(): pass\n")
    tree.write("test_b.py", "@rule('CHAT-002')\ndef test_b(): assert False\n")
    tree.pytest("tests/test_a.py")
    tree.pytest("tests/test_b.py")
    assert tree.covered() == {"chat": 1}

    # when: only the failing one is mended and repeated
    tree.write("test_b.py", "@rule('CHAT-002')\ndef test_b(): pass\n")
    tree.pytest("tests/test_b.py")

    assert tree.covered() == {"chat": 2}


def test_a_result_whose_test_is_gone_or_proves_something_else_now_is_not_counted(tree: Tree) -> None:
    # given: three tests that passed
    tree.write("test_a.py", "".join(f"@rule('CHAT-00{n}')\ndef test_{n}(): pass\n" for n in (1, 2, 3)))
    tree.pytest()
    assert tree.covered() == {"chat": 3}

    # when: one goes, one changes its rule
    tree.write("test_a.py", "@rule('CHAT-001')\ndef test_1(): pass\n@rule('MSG-001')\ndef test_2(): pass\n")

    assert tree.covered() == {"chat": 1, "messages": 1}


@pytest.mark.parametrize(
    ("marker", "fault"),
    [
        ("rule('CHAT-999')", "unknown contract rule 'CHAT-999'"),
        ("rule()", "the rule marker takes one or more rule ids"),
        ("rule(id='CHAT-001')", "the rule marker takes one or more rule ids"),
    ],
    ids=["unknown", "none", "named"],
)
def test_a_marker_that_names_no_rule_fails_the_collection(tree: Tree, marker: str, fault: str) -> None:
    tree.write("test_a.py", f"@{marker}\ndef test_a(): pass\n")

    code, output = tree.pytest()

    assert code == pytest.ExitCode.INTERRUPTED
    assert f"tests/test_a.py::test_a: {fault}" in output


def test_the_command_says_so_when_a_test_file_does_not_import(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    # given: a proven rule in one file, and another file that is broken
    tree.write("test_a.py", "@rule('CHAT-001')\ndef test_a(): pass\n")
    tree.pytest()
    tree.write("test_b.py", "import nothing_of_this_name\n")

    code = tree.command()

    printed = capsys.readouterr()
    assert code == 1
    assert "nothing_of_this_name" in printed.err
    assert "total: 1 of" in printed.out


def test_totals_hold_every_section_and_every_rule() -> None:
    table = coverage.totals(rules().values(), set())

    assert sum(row["rules"] for row in table.values()) == len(rules())
    assert table["chat"] == {"rules": 67, "covered": 0}


def test_the_printed_table_names_the_rules_and_the_owners() -> None:
    text = coverage.render(rules(), {"CHAT-001", "CHAT-002", "CHAT-007", "MSG-071"}, {"CHAT-003"})

    assert next(line for line in text.splitlines() if line.startswith("chat ")).endswith("67  001-002 007")
    assert "with a failing test: CHAT-003" in text
    assert text.endswith(f"total: 4 of {len(rules())} rules have a passing test")


def test_a_merge_keeps_what_other_runs_wrote(tmp_path: Path) -> None:
    results.merge(tmp_path, {"a": "passed", "b": "failed"})
    results.merge(tmp_path, {"b": "passed"})

    assert results.load(tmp_path) == {"a": "passed", "b": "passed"}
