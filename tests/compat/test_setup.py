"""Which faces, catalogue, exclusions and suite a run takes.
Run by pytest.
"""

import json
from pathlib import Path

import pytest

from services.router.catalog.load import load
from tests.compat import exclusions, faces, gateway, suite
from tests.compat.__main__ import main
from tests.compat.exclusions import Exclusion
from tests.compat.faces import ANTHROPIC, FACES, OPENAI
from tests.compat.gateway import Gateway
from tests.compat.suite import SuiteMissing
from tests.compat.tally import Tally


def test_faces_are_taken_by_name_and_all_without_one() -> None:
    assert faces.named("anthropic, openai") == (ANTHROPIC, OPENAI)
    assert faces.named("") == FACES
    with pytest.raises(ValueError, match="no face gemini; there are openai, anthropic, responses"):
        faces.named("openai,gemini")


def test_the_router_takes_the_catalogue_of_every_face(tmp_path: Path) -> None:
    file = tmp_path / "catalog.yaml"
    file.write_text(json.dumps(gateway.catalog("http://127.0.0.1:9/v1", FACES)))

    loaded = load(file, {"COMPAT_PROVIDER_KEY": "sk-x"})

    served = {model.id: model.served_by[0].provider for model in loaded.models}
    formats = {provider.id: provider.format for provider in loaded.providers}
    for face in FACES:
        assert formats[served[face.model]] == face.format
        assert served[face.small_model] == served[face.model]
        assert served[face.fault_model] != served[face.model]


def test_a_face_is_told_only_of_its_own_exclusions(monkeypatch: pytest.MonkeyPatch) -> None:
    table = (Exclusion("a/*", "not built"), Exclusion("b/one", "needs a signature", (ANTHROPIC,)))
    monkeypatch.setattr(exclusions, "TABLE", table)

    assert suite.settings(OPENAI)["COMPAT_SKIP"] == "a/*"
    assert suite.settings(ANTHROPIC)["COMPAT_SKIP"] == "a/*,b/one"


def test_every_exclusion_is_printed_with_its_reason() -> None:
    lines = exclusions.text().splitlines()

    assert len(lines) == len(exclusions.TABLE)
    assert all(row.checks in line and row.reason in line for row, line in zip(exclusions.TABLE, lines, strict=True))


def test_a_missing_suite_is_told_in_one_line_that_says_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["--suite", str(tmp_path / "nowhere")])

    said = capsys.readouterr().err
    assert code == 2
    assert said.count("\n") == 1
    assert str(tmp_path / "nowhere" / "run.sh") in said


def test_the_setting_says_where_the_suite_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(suite.SETTING, str(tmp_path))

    with pytest.raises(SuiteMissing):
        suite.find("")
    for name in ("run.sh", "scripted_upstream.py"):
        (tmp_path / name).write_text("")

    assert suite.find("").directory == tmp_path


def test_the_suite_gets_gateway_and_settings_and_its_results_are_shown_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.sh").write_text(
        'echo "PASS client/told $* $COMPAT_FAULT_MODEL"\necho "FAIL client/other got 1"\nexit 1\n'
    )
    tally = Tally()

    suite.Suite(tmp_path).run(Gateway("http://127.0.0.1:9", "kn-key"), OPENAI, "codex,cohere", tally)

    told = "http://127.0.0.1:9 kn-key scripted-openai --only codex,cohere scripted-openai-faults"
    assert capsys.readouterr().out.splitlines()[0] == f"openai: PASS client/told {told}"
    assert tally.text().splitlines() == ["FAIL openai: client/other got 1", "1 passed, 1 failed"]
