"""The routing service: answers, refusals, probes, and what stays cached."""

import time
from pathlib import Path

import pytest
from kenari.router.v1 import router_pb2

from libs.events.router import UpstreamHealth
from services.router.catalog.cards import assemble
from services.router.catalog.load import load
from services.router.catalog.prices import price_of
from services.router.domain import HealthRules, Try, Verdict
from tests.unit.router.world import T0, World

TWO_PROVIDERS = """
providers:
  - {id: p1, format: openai_chat, base_url: "http://p1/v1", key_env: [P1_A, P1_B], timeouts: {first_byte_ms: 20000}}
  - {id: p2, format: openai_chat, base_url: "http://p2/v1", key_env: P2}
models:
  - id: both
    vendor: v
    context_length: 1000
    rupiah_per_1m_tokens: {input: 1, output: 2, cache_read: 1}
    served_by: [{provider: p1}, {provider: p2, upstream_model: other-name, order: 1}]
  - id: only:free
    vendor: v
    free: true
    free_rpm: 5
    served_by: [{provider: p2}]
  - id: painter
    vendor: v
    endpoints: [images]
    unit_price: {per: image, rupiah: 3}
    served_by: [{provider: p2}]
"""


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, {"P1_A": "sk-a", "P2": "sk-2"}, TWO_PROVIDERS)


def test_a_route_holds_everything_the_edge_needs(world: World) -> None:
    route = world.ask().route
    assert (route.model.id, route.model.vendor, route.model.free) == ("both", "v", False)
    assert route.model.context_length == 1000
    assert (route.model.price.input, route.model.price.output, route.model.price.cache_read) == (
        1_000_000,
        2_000_000,
        1_000_000,
    )
    assert not route.model.price.HasField("cache_write")
    assert not route.model.HasField("free_rpm")
    first, second = route.attempts
    assert (first.upstream_id, first.provider, first.base_url, first.credential, first.upstream_model) == (
        "p1/P1_A",
        "p1",
        "http://p1/v1",
        "sk-a",
        "both",
    )
    assert first.format == router_pb2.PROVIDER_FORMAT_OPENAI_CHAT
    assert (first.connect_timeout_ms, first.first_byte_timeout_ms, first.idle_timeout_ms) == (5_000, 20_000, 60_000)
    assert first.content_timeout_ms == 600_000
    assert (second.upstream_id, second.upstream_model, second.first_byte_timeout_ms) == ("p2/P2", "other-name", 60_000)


def test_free_limits_travel_with_a_free_model(world: World) -> None:
    model = world.ask("only:free").route.model
    assert (model.free, model.free_rpm, model.HasField("free_daily")) == (True, 5, False)


def test_the_price_of_a_unit_and_who_may_use_a_model_travel_along(tmp_path: Path) -> None:
    closed = TWO_PROVIDERS.replace("endpoints: [images]", "endpoints: [images]\n    subscribers_only: true")
    world = World(tmp_path, {"P2": "sk-2"}, closed)
    model = world.ask("painter", "images").route.model
    assert (model.price.input, model.price.unit, model.subscribers_only) == (0, 3_000_000, True)
    other = world.ask().route.model
    assert (other.price.HasField("unit"), other.subscribers_only) == (False, False)


def test_the_price_of_a_fee_is_known_and_the_fee_is_no_model(tmp_path: Path) -> None:
    world = World(tmp_path, {"P2": "sk-2"}, TWO_PROVIDERS + "fees: [{id: web_search, rupiah: 200}]\n")
    price = world.routing.price(price_of(None, "call", 200_000_000).version)
    assert price is not None
    assert price.unit == 200_000_000
    assert world.ask("web_search").refusal.code == "model_not_found"


def test_every_key_and_provider_of_a_model_is_an_attempt(tmp_path: Path) -> None:
    world = World(tmp_path, {"P1_A": "a", "P1_B": "b", "P2": "c"}, TWO_PROVIDERS)
    for account in range(20):
        tries = [attempt.upstream_id for attempt in world.ask(account=f"acct_{account}").route.attempts]
        assert sorted(tries[:2]) == ["p1/P1_A", "p1/P1_B"]
        assert tries[2:] == ["p2/P2"]


def test_an_unknown_model_is_not_found(world: World) -> None:
    refusal = world.ask("no\nsuch" + "x" * 500).refusal
    assert refusal.code == "model_not_found"
    assert "no?such" in refusal.message
    assert len(refusal.message) < 300


def test_a_model_of_another_kind_is_refused_with_the_endpoint_to_use(world: World) -> None:
    refusal = world.ask("painter").refusal
    assert refusal.code == "bad_request"
    assert "POST /v1/images/generations" in refusal.message
    assert world.ask("painter", "images").HasField("route")
    assert "POST /v1/chat/completions" in world.ask("both", "images").refusal.message


def test_a_paused_upstream_is_skipped_and_named_to_others(world: World) -> None:
    said = world.fails("p1/P1_A")
    assert world.tries() == ["p2/P2"]
    assert said is not None
    assert (said.state, said.until_ms, said.reason, said.pauses) == ("cooling", T0 + 5_000, "failed", 1)


def test_when_all_are_paused_the_refusal_says_when_to_come_back(world: World) -> None:
    world.fails("p1/P1_A")
    world.clock.ms += 2_000
    world.fails("p2/P2")
    refusal = world.ask().refusal
    assert (refusal.code, refusal.retry_after_s) == ("all_providers_failed", 3)
    assert "p1" not in refusal.message


def test_one_probe_at_a_time_goes_first_with_the_healthy_ones_behind_it(world: World) -> None:
    world.fails("p1/P1_A")
    world.clock.ms += 5_000
    probe = world.ask().route.attempts
    assert [attempt.upstream_id for attempt in probe] == ["p1/P1_A", "p2/P2"]
    assert probe[0].first_byte_timeout_ms == 10_000
    assert world.tries() == ["p2/P2"]
    world.clock.ms += HealthRules().probe_ms
    assert world.tries() == ["p1/P1_A", "p2/P2"]


def test_a_lone_upstream_is_probed_with_its_own_patience_while_others_wait(world: World) -> None:
    world.fails("p2/P2")
    world.clock.ms += 5_000
    assert world.ask("only:free").route.attempts[0].first_byte_timeout_ms == 60_000
    assert world.ask("only:free").refusal.code == "all_providers_failed"


def test_a_good_probe_brings_the_upstream_back_at_once(world: World) -> None:
    world.fails("p1/P1_A")
    world.clock.ms += 5_000
    world.ask()
    world.clock.ms += 100
    said = world.answers("p1/P1_A")
    assert said is not None
    assert (said.state, said.until_ms) == ("healthy", 0)
    assert world.tries() == world.tries() == ["p1/P1_A", "p2/P2"]


def test_the_probe_is_known_by_its_request_whatever_the_edges_clock_says(world: World) -> None:
    world.fails("p1/P1_A")
    world.clock.ms += 5_000
    world.ask(request="the-probe")
    behind = Try(Verdict.ALIVE, "completed", T0 + 2_000, T0 + 2_100)
    assert world.book.tried("p1/P1_A", "another", behind) is None
    said = world.book.tried("p1/P1_A", "the-probe", behind)
    assert said is not None
    assert said.state == "healthy"


def test_what_another_router_says_is_believed_unless_it_is_older(world: World) -> None:
    cooling = UpstreamHealth(upstream_id="p1/P1_A", version=T0 + 5, state="cooling", until_ms=T0 + 9_000, pauses=2)
    world.book.learn(cooling)
    assert world.tries() == ["p2/P2"]
    world.book.learn(UpstreamHealth(upstream_id="p1/P1_A", version=T0 + 4, state="healthy"))
    assert world.tries() == ["p2/P2"]
    world.clock.ms = T0 + 9_100
    again = world.fails("p1/P1_A", times=1)
    assert again is not None
    assert (again.pauses, again.until_ms - world.clock.ms) == (3, 20_000)
    assert again.version > cooling.version


def test_answers_are_reused_while_nothing_changes(world: World) -> None:
    assert world.ask() is world.ask()
    world.answers("p1/P1_A")
    assert world.ask() is world.ask()
    before = world.ask()
    world.fails("p2/P2")
    assert world.ask() is not before


def test_a_changed_catalogue_counts_for_the_next_request(world: World, tmp_path: Path) -> None:
    held = world.ask()
    world.routing.offer(assemble(load(tmp_path / "catalog.yaml", {"P1_A": "sk-new", "P2": "x"}), {}, T0 // 1000))
    assert held.route.attempts[0].credential == "sk-a"
    assert world.ask().route.attempts[0].credential == "sk-new"


def test_a_price_stays_known_after_it_changed(world: World, tmp_path: Path) -> None:
    version = world.ask().route.model.price.version
    (tmp_path / "catalog.yaml").write_text(TWO_PROVIDERS.replace("output: 2,", "output: 3,"))
    world.routing.offer(assemble(load(tmp_path / "catalog.yaml", {"P1_A": "a"}), {}, T0 // 1000))
    assert world.ask().route.model.price.version != version
    old = world.routing.price(version)
    assert old is not None
    assert old.output == 2_000_000


def test_metrics_count_outcomes_and_show_states_without_keys(world: World) -> None:
    world.ask()
    world.ask("nothing")
    world.fails("p1/P1_A")
    scraped = world.telemetry.scrape().decode()
    assert 'kenari_router_routes_total{outcome="routed"} 1.0' in scraped
    assert 'kenari_router_routes_total{outcome="model_not_found"} 1.0' in scraped
    assert 'kenari_router_upstream_state{upstream="p1/P1_A"} 2.0' in scraped
    assert 'kenari_router_pauses_total{reason="failed",upstream="p1/P1_A"} 1.0' in scraped
    assert "sk-a" not in scraped


def test_a_route_costs_microseconds(world: World) -> None:
    world.ask()
    best = 1.0
    for _ in range(5):
        started = time.perf_counter()
        for _ in range(2_000):
            world.ask()
        best = min(best, (time.perf_counter() - started) / 2_000)
    assert best < 50e-6


SOME_CANNOT = """
providers:
  - {id: plain, format: openai_chat, base_url: "http://plain/v1", abilities: {tools: false, remote_images: false}}
  - {id: able, format: anthropic, base_url: "http://able/v1"}
models:
  - id: both
    vendor: v
    reasoning: true
    reasoning_options: [low, high]
    rupiah_per_1m_tokens: {input: 1, output: 2}
    served_by: [{provider: plain}, {provider: able, order: 1}]
  - id: plain-only
    vendor: v
    rupiah_per_1m_tokens: {input: 1, output: 2}
    served_by: [{provider: plain}]
"""


@pytest.fixture
def mixed(tmp_path: Path) -> World:
    return World(tmp_path, {}, SOME_CANNOT)


def providers(answer: router_pb2.RouteResponse) -> list[str]:
    return [attempt.provider for attempt in answer.route.attempts]


@pytest.mark.rule("TOOL-043", "TOOL-044")
def test_tools_go_only_to_providers_that_take_them(mixed: World) -> None:
    assert providers(mixed.ask()) == ["plain", "able"]
    assert providers(mixed.ask(tools=True)) == ["able"]
    refusal = mixed.ask("plain-only", tools=True).refusal
    assert refusal.code == "no_wire_for_modality"


@pytest.mark.rule("VIS-010")
def test_pictures_at_addresses_go_only_to_providers_that_fetch_them(mixed: World) -> None:
    assert providers(mixed.ask(remote_images=True)) == ["able"]
    refusal = mixed.ask("plain-only", remote_images=True).refusal
    assert (refusal.code, refusal.message) == ("bad_request", "remote image URL not supported by upstream")


def test_what_a_provider_can_do_and_how_a_model_reasons_travels_along(mixed: World) -> None:
    route = mixed.ask().route
    plain, able = route.attempts
    assert (plain.format, plain.cache_marks) == (router_pb2.PROVIDER_FORMAT_OPENAI_CHAT, False)
    assert (able.format, able.cache_marks, able.json_format) == (router_pb2.PROVIDER_FORMAT_ANTHROPIC, True, False)
    assert (route.model.reasoning, list(route.model.reasoning_options)) == (True, ["low", "high"])


@pytest.mark.rule("CACHE-023", "KYARA-035")
def test_a_conversation_stays_with_its_provider_and_another_may_go_elsewhere(tmp_path: Path) -> None:
    world = World(tmp_path, {"P1_A": "a", "P1_B": "b", "P2": "c"}, TWO_PROVIDERS)

    def first(session: str) -> str:
        return world.ask(session=session).route.attempts[0].upstream_id

    starts = {session: first(session) for session in map(str, range(40))}
    assert all(first(session) == start for session, start in starts.items())
    assert set(starts.values()) == {"p1/P1_A", "p1/P1_B"}
