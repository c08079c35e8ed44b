"""What an operator is told about a request agrees with where it goes, and says what speaks against the others."""

from pathlib import Path

from kenari.router.v1 import router_pb2

from services.router.domain import HealthRules
from tests.unit.router.world import T0, World

CATALOG = """
providers:
  - {id: p1, format: openai_chat, base_url: "http://p1/v1", key_env: [P1_A, P1_B]}
  - {id: p2, format: openai_chat, base_url: "http://p2/v1", abilities: {tools: false, remote_images: false}}
models:
  - id: m
    vendor: v
    rupiah_per_1m_tokens: {input: 1, output: 2}
    served_by: [{provider: p1}, {provider: p2, order: 1}]
  - {id: painter, vendor: v, endpoints: [images], unit_price: {per: image, rupiah: 1}, served_by: [{provider: p2}]}
"""


def world(folder: Path) -> World:
    return World(folder, {"P1_A": "sk-a", "P1_B": "sk-b"}, CATALOG)


def explained(running: World, model: str = "m", session: str = "", tools: bool = False) -> list[router_pb2.Candidate]:
    asked = router_pb2.RouteRequest(model=model, endpoint="chat", account_id="acct_1", session=session, tools=tools)
    return running.routing.explained(asked, model)


def test_turns_are_those_of_the_attempts(tmp_path: Path) -> None:
    running = world(tmp_path)
    for session in map(str, range(10)):
        tries = [one.upstream_id for one in running.ask("m", session=session).route.attempts]
        assert [one.upstream_id for one in explained(running, session=session)] == tries
    assert {one.state for one in explained(running)} == {"takes requests"}


def test_what_is_paused_or_cannot_carry_the_request_says_so(tmp_path: Path) -> None:
    running = world(tmp_path)
    running.fails("p1/P1_A")
    told = {one.upstream_id: one for one in explained(running, tools=True)}
    assert [(one.turn, one.state) for one in told.values()] == [
        (1, "takes requests"),
        (0, "paused"),
        (0, "cannot carry tools"),
    ]
    paused = told["p1/P1_A"]
    assert (paused.until_ms, paused.reason) == (T0 + 5_000, "failed")
    running.clock.ms += HealthRules().first_pause_ms
    probe = explained(running)[0]
    assert (probe.upstream_id, probe.turn, probe.state) == ("p1/P1_A", 1, "waits for a probe")
    # Asking is no probe.
    assert running.ask("m").route.attempts[0].upstream_id == "p1/P1_A"


def test_what_cannot_be_called_says_so_and_no_key_is_told(tmp_path: Path) -> None:
    running = world(tmp_path)
    assert [one.state for one in explained(running, "nothing")] == ["is not for sale"]
    assert [one.state for one in explained(running, "painter")] == ["is no model for chat"]
    assert "sk-a" not in str(explained(running))
