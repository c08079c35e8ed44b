"""Every check finds a breach planted in a temporary tree and leaves its allowed neighbour alone.
Forbidden words are put together from pieces here too, since this file is checked like any other."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lint import guards
from tests.lint.__main__ import main
from tests.lint.checks import CHECKS, run
from tests.lint.tree import Finding, Tree

Plant = Callable[[dict[str, str]], Tree]
DOC = '"""What it is for.\nWho calls it."""\n'


@pytest.fixture
def plant(tmp_path: Path) -> Plant:
    """Write files, given as text by path, and return the tree of them."""

    def write(files: dict[str, str]) -> Tree:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return Tree(tmp_path, list(files))

    return write


def found(check: str, tree: Tree, level: str = "error") -> list[tuple[str, int]]:
    """Where a check found something."""
    return sorted((finding.path, finding.line) for finding in CHECKS[check](tree) if finding.level == level)


def test_length_fails_over_400_lines_and_warns_over_300(plant: Plant) -> None:
    tree = plant(
        {
            "libs/a.py": "x = 1\n" * 401,
            "libs/b.sql": "--\n" * 400,
            "libs/c.py": "x = 1\n" * 300,
            "libs/gen/d.py": "x = 1\n" * 999,
            "tests/rules.yaml": "- a\n" * 999,
        }
    )

    assert found("length", tree) == [("libs/a.py", 401)]
    assert found("length", tree, "warning") == [("libs/b.sql", 400)]


def test_names_that_say_nothing_are_refused_for_files_and_folders(plant: Plant) -> None:
    tree = plant(
        dict.fromkeys(["libs/utils.py", "libs/common/ids.py", "libs/gen/common/a.py", "libs/manager_view.py"], "")
    )

    assert found("names", tree) == [("libs/common/ids.py", 1), ("libs/utils.py", 1)]


def test_a_file_that_does_not_parse_is_named(plant: Plant) -> None:
    assert found("syntax", plant({"libs/a.py": DOC + "def (:\n", "libs/b.py": DOC})) == [("libs/a.py", 3)]


def test_a_module_without_a_docstring_is_refused_but_an_empty_one_is_not(plant: Plant) -> None:
    tree = plant({"libs/a.py": "x = 1\n", "libs/b.py": DOC + "x = 1\n", "libs/__init__.py": ""})

    assert found("docstrings", tree) == [("libs/a.py", 1)]


def test_a_service_without_one_of_its_four_files_is_refused(plant: Plant) -> None:
    whole = {f"services/edge/{name}": DOC for name in ("README.md", "settings.py", "app.py", "telemetry.py")}
    tree = plant(whole | {"services/__main__.py": DOC, "services/ledger/app.py": DOC, "services/ledger/README.md": ""})

    assert found("service-files", tree) == [
        ("services/ledger/settings.py", 1),
        ("services/ledger/telemetry.py", 1),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "rate = 1.5",
        "total = float(amount)",
        "half = amount / 2",
        "amount /= 2",
        "tiny = 10 ** -6",
        "def f(x: float): ...",
        "def f() -> float | None: ...",
        "price: dict[str, float] = {}",
    ],
)
def test_a_float_where_money_is_computed_is_refused(plant: Plant, line: str) -> None:
    files = ["services/ledger/domain.py", "services/ledger/domain/price.py", "libs/core/money.py"]
    tree = plant(dict.fromkeys([*files, "services/edge/stream.py"], line + "\n"))

    assert found("money", tree) == sorted((file, 1) for file in files)


def test_whole_numbers_and_refusing_a_float_are_fine_where_money_is_computed(plant: Plant) -> None:
    text = "half = amount // 2\nscale = 10**6\nif isinstance(amount, float):\n    raise TypeError\n"

    assert found("money", plant({"libs/core/money.py": text})) == []


def test_a_float_named_like_money_is_refused_in_services_and_libs(plant: Plant) -> None:
    text = (
        "balance: float = 0\n"
        "share = float(self.cost_micro_idr)\n"
        "each = price / count\n"
        "def charge(amount: float) -> None: ...\n"
        "price_age: float = 0\n"
        "seconds = elapsed / 2\n"
    )
    tree = plant({"services/edge/a.py": text, "tests/a.py": text})

    assert found("money-names", tree) == [("services/edge/a.py", line) for line in (1, 2, 3, 4)]


def test_a_floating_point_column_is_refused_in_the_ledger(plant: Plant) -> None:
    text = "create table a (x bigint,\n y double precision, -- no\n z bigint); -- a real one\n"
    tree = plant({"services/ledger/migrations/0001.sql": text, "services/router/migrations/0001.sql": text})

    assert found("money-columns", tree) == [("services/ledger/migrations/0001.sql", 2)]


@pytest.mark.parametrize(
    "line",
    [
        "import aiokafka",
        "from faststream.kafka import KafkaBroker",
        "def f():\n    from aiokafka.errors import KafkaError",
        "importlib.import_module('faststream')",
    ],
)
def test_kafka_is_imported_by_its_library_only(plant: Plant, line: str) -> None:
    tree = plant(dict.fromkeys(["libs/kafka/table.py", "libs/db/pool.py", "tests/kafka/test_a.py"], line + "\n"))

    assert found("doors", tree) == [("libs/db/pool.py", line.count("\n") + 1)]


def test_grpc_is_imported_by_its_library_and_a_services_rpc_and_clients_only(plant: Plant) -> None:
    allowed = [
        "libs/rpc/server.py",
        "libs/gen/a_pb2_grpc.py",
        "services/edge/rpc.py",
        "services/edge/clients.py",
    ]
    tree = plant(dict.fromkeys([*allowed, "services/edge/service.py"], "import grpc.aio\n"))

    assert found("doors", tree) == [("services/edge/service.py", 1)]


def test_a_module_whose_name_only_begins_alike_may_be_imported(plant: Plant) -> None:
    tree = plant({"libs/ops/a.py": "import grpcish\nfrom .grpc import x\nfrom opentelemetry.grpc import y\n"})

    assert found("doors", tree) == []


def test_unfinished_work_is_refused(plant: Plant) -> None:
    text = DOC + "# TO" + "DO later\nraise NotImplemented" + "Error\nx = 'TO" + "DOS'\n"
    tree = plant({"libs/a.py": text, "README.md": "Not yet: " + "FIX" + "ME\n", "libs/gen/b.py": text})

    assert found("unfinished", tree) == [("README.md", 1), ("libs/a.py", 3), ("libs/a.py", 4)]


@pytest.mark.parametrize(
    "text",
    [
        "index = https://" + "py" + "pi.org/simple",
        "see https://files.python" + "hosted.org/a",
        "cd /wo" + "rk/main",
        "open('/tm" + "p/x')",
        "/ho" + "me/someone/project",
        "../sha" + "red/README.md",
        "see sha" + "red/design/perf.md",
    ],
)
def test_a_registry_host_or_a_local_path_is_refused_in_any_file(plant: Plant, text: str) -> None:
    assert found("places", plant({"docs/a.md": f"first\n{text}\n"})) == [("docs/a.md", 2)]


def test_paths_of_the_product_and_of_containers_are_no_local_paths(plant: Plant) -> None:
    page = "GET /v1/models\nbuild/tm" + "p/x\nhttps://example.com/ho" + "me/a\nsha" + "red/keys\n"
    tree = plant({"docs/a.md": page, "deploy/Dockerfile": "COPY . /ho" + "me/app\n"})

    assert found("places", tree) == []


def unlisted(tree: Tree) -> list[tuple[str, int]]:
    """Where something catches everything, with an empty list of guards."""
    return [(finding.path, finding.line) for finding in guards.catch_all(tree, {})]


@pytest.mark.parametrize(
    "handler",
    [
        "except Exception:",
        "except (ValueError, BaseException) as e:",
        "except builtins.Exception:",
        "except:",
    ],
)
def test_catching_everything_is_refused(plant: Plant, handler: str) -> None:
    tree = plant({"libs/a.py": f"def f():\n    try:\n        g()\n    {handler}\n        pass\n"})

    assert unlisted(tree) == [("libs/a.py", 4)]


def test_suppressing_everything_is_refused(plant: Plant) -> None:
    text = "with contextlib.suppress(OSError):\n    f()\nwith suppress(Exception):\n    f()\n"

    assert unlisted(plant({"libs/a.py": text})) == [("libs/a.py", 3)]


def test_cleaning_up_and_passing_the_error_on_is_fine(plant: Plant) -> None:
    text = "try:\n    f()\nexcept BaseException:\n    undo()\n    raise\n"

    assert unlisted(plant({"libs/a.py": text})) == []


def test_a_listed_guard_may_catch_everything_and_an_idle_entry_is_refused(plant: Plant) -> None:
    tree = plant({"libs/a.py": "class A:\n  def f(self):\n    try: g()\n    except Exception: pass\n"})
    reasons = {"libs/a.py::A.f": "a poison message must not stop the others", "libs/b.py::g": "gone"}

    assert [finding.path for finding in guards.catch_all(tree, reasons)] == ["libs/b.py"]


def test_every_listed_guard_has_a_reason() -> None:
    assert [place for place, reason in guards.ALLOWED.items() if len(reason.split()) < 4] == []


def test_a_file_that_is_not_text_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "logo.png").write_bytes(b"\x89PNG\xff\xfe")

    assert [finding for finding in run(Tree(tmp_path, ["logo.png"])) if finding.path == "logo.png"] == []


def test_the_command_prints_the_breach_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # given: a repository whose only file breaks a rule, next to an ignored one
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / ".gitignore").write_text("build/\n")
    (tmp_path / "helpers.py").write_text(DOC)
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "utils.py").write_text("")

    code = main(tmp_path)

    printed = capsys.readouterr().out
    assert code == 1
    assert str(Finding("helpers.py", 1, "'helpers' says nothing about the content")) in printed
    assert "build/utils.py" not in printed
