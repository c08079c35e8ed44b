"""The free route: all free models that can serve a request, in a random order."""

from collections import Counter
from pathlib import Path

import pytest

from services.router.domain import HealthRules
from tests.unit.router.world import World

FREE_ROUTE = "kenari-free"

SEVERAL = """
providers:
  - {id: p1, format: openai_chat, base_url: "http://p1/v1"}
  - {id: p2, format: openai_chat, base_url: "http://p2/v1"}
  - {id: plain, format: gemini, base_url: "http://p3/v1", abilities: {tools: false}}
models:
  - {id: paid, vendor: v, tool_call: true, rupiah_per_1m_tokens: {input: 1, output: 1}, served_by: [{provider: p1}]}
  - {id: "a:free", vendor: v, free: true, tool_call: true, served_by: [{provider: p1}, {provider: p2, order: 1}]}
  - {id: "b:free", vendor: v, free: true, tool_call: true, served_by: [{provider: p2}]}
  - {id: "c:free", vendor: v, free: true, tool_call: false, served_by: [{provider: p2}]}
  - {id: "d:free", vendor: v, free: true, served_by: [{provider: p1}]}
  - {id: "e:free", vendor: v, free: true, tool_call: true, served_by: [{provider: plain}]}
  - {id: "closed:free", vendor: v, free: true, subscribers_only: true, served_by: [{provider: p1}]}
  - {id: "painter:free", vendor: v, free: true, endpoints: [images], served_by: [{provider: p1}]}
"""
ALL = ["a:free", "b:free", "c:free", "d:free", "e:free"]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, {}, SEVERAL)


def models(world: World, *only: str, tools: bool = False, images: bool = False) -> list[str]:
    route = world.ask(FREE_ROUTE, models=only, tools=tools, remote_images=images).route
    return [routed.model.id for routed in (route, *route.others)] if route.HasField("model") else []


@pytest.mark.rule("FREE-006", "FREE-008")
def test_every_free_chat_model_follows_once_with_all_that_serve_it(world: World) -> None:
    assert sorted(models(world)) == ALL
    route = world.ask(FREE_ROUTE).route
    tries = {routed.model.id: [one.upstream_id for one in routed.attempts] for routed in (route, *route.others)}
    assert tries["a:free"] == ["p1/default", "p2/default"]
    assert tries["b:free"] == ["p2/default"]


@pytest.mark.rule("FREE-007")
def test_each_is_the_first_about_as_often_as_every_other(world: World) -> None:
    firsts = Counter(models(world)[0] for _ in range(1_000))
    # Five of them: 200 expected each; 100 or 300 is eight standard deviations off.
    assert set(firsts) == set(ALL)
    assert all(100 < count < 300 for count in firsts.values())
    assert len({tuple(models(world)) for _ in range(100)}) > 30


@pytest.mark.rule("FREE-009")
def test_tools_go_only_to_models_and_providers_that_take_them(world: World) -> None:
    assert sorted(models(world, tools=True)) == ["a:free", "b:free"]


@pytest.mark.rule("FREE-010")
def test_tools_without_a_free_model_that_takes_them_are_a_bad_request(tmp_path: Path) -> None:
    world = World(tmp_path, {}, SEVERAL.replace("tool_call: true", "tool_call: false"))
    assert world.ask(FREE_ROUTE, tools=True).refusal.code == "bad_request"
    assert world.ask(FREE_ROUTE).HasField("route")


@pytest.mark.rule("VIS-010")
def test_pictures_at_addresses_go_only_to_those_that_fetch_them(world: World) -> None:
    assert sorted(models(world, images=True)) == ["a:free", "b:free", "c:free", "d:free"]
    assert world.ask(FREE_ROUTE, models=["e:free"], remote_images=True).refusal.code == "bad_request"


def test_a_scope_leaves_only_its_own_models(world: World) -> None:
    assert sorted(models(world, "b:free", "paid", "closed:free")) == ["b:free"]
    assert world.ask(FREE_ROUTE, models=["paid", "closed:free"]).refusal.code == "no_wire_for_modality"


def test_a_model_whose_providers_are_paused_is_left_out(world: World) -> None:
    world.fails("p2/default")
    assert sorted(models(world)) == ["a:free", "d:free", "e:free"]


def test_when_all_are_paused_the_refusal_has_the_shortest_wait(world: World) -> None:
    world.fails("p1/default")
    world.fails("plain/default")
    world.clock.ms += 2_000
    world.fails("p2/default")
    refusal = world.ask(FREE_ROUTE).refusal
    assert (refusal.code, refusal.retry_after_s) == ("all_providers_failed", 3)


def test_one_request_probes_one_provider(world: World) -> None:
    for upstream in ("p1/default", "p2/default", "plain/default"):
        world.fails(upstream)
    world.clock.ms += HealthRules().first_pause_ms
    probed = world.ask(FREE_ROUTE).route
    assert len(probed.attempts) == 1
    assert not probed.others


@pytest.mark.rule("ROUTE-011")
def test_it_is_a_route_for_chats_alone(world: World) -> None:
    assert world.ask(FREE_ROUTE, "images").refusal.code == "model_not_found"


def test_an_answer_for_one_model_is_not_changed_by_the_route(world: World) -> None:
    alone = world.ask("a:free")
    for _ in range(20):
        world.ask(FREE_ROUTE)
    assert world.ask("a:free") is alone
    assert not alone.route.others


def test_without_a_free_model_there_is_nothing_behind_it(tmp_path: Path) -> None:
    only_paid = SEVERAL.partition('  - {id: "a:free"')[0]
    refusal = World(tmp_path, {}, only_paid).ask(FREE_ROUTE).refusal
    assert (refusal.code, refusal.retry_after_s) == ("no_wire_for_modality", 0)
