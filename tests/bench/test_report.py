"""Goals, tables and the document that the bench leaves behind.
Run by pytest.
"""

import json
from pathlib import Path

from tests.bench import report
from tests.bench.report import Goal


def test_a_goal_is_met_on_its_bound() -> None:
    assert Goal("speed", 2500, 2500, "at least").met
    assert not Goal("speed", 2499, 2500, "at least").met
    assert Goal("p99", 60, 60, "at most").met
    assert not Goal("p99", 61, 60, "at most").met


def test_a_missed_goal_stands_out() -> None:
    text = report.goals_text([Goal("speed", 1, 2, "at least"), Goal("p99", 1, 2, "at most")])

    assert [line.split(" speed")[0].split(" p99")[0].strip() for line in text.splitlines()] == ["NOT MET", "met"]


def test_columns_of_a_table_line_up() -> None:
    text = report.table(["case", "per second"], [["plain", "1,000.0"], ["a longer name", "2.0"]])

    assert text.splitlines() == [
        "case           per second",
        "plain             1,000.0",
        "a longer name         2.0",
    ]


def test_figures_by_process_add_up() -> None:
    text = report.by_process({"plain": {"edge": 0.25, "postgres": 0.5}, "free": {"edge": 0.125}}, digits=3)

    assert text.splitlines()[-1].split() == ["together", "0.750", "0.125"]


def test_each_command_writes_its_own_part_of_the_document(tmp_path: Path) -> None:
    path = tmp_path / "build" / "bench.json"

    report.write_part(path, "run", {"rounds": 3})
    report.write_part(path, "peers", {"rounds": 1})
    report.write_part(path, "run", {"rounds": 2})

    assert json.loads(path.read_text()) == {"run": {"rounds": 2}, "peers": {"rounds": 1}}


def test_the_facts_name_cores_and_python() -> None:
    facts = report.machine_facts()

    assert facts["cores"] >= 1
    assert facts["python"].startswith("3.")
