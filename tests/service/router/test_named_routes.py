"""Named routes through a whole router: kept, changed, refused, and asked for by requests."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeAlias

import grpc
import pytest
from kenari.router.v1 import router_pb2

from libs.rpc.errors import from_call
from tests.service.router.world import Router, Watcher, unique, until

Strategy: TypeAlias = "router_pb2.Strategy.ValueType"
FALLBACK, ROUND_ROBIN = router_pb2.STRATEGY_FALLBACK, router_pb2.STRATEGY_ROUND_ROBIN
P1, P2 = unique("p1"), unique("p2")
MODELS = f"""
providers:
  - {{id: {P1}, format: openai_chat, base_url: "http://p1/v1"}}
  - {{id: {P2}, format: openai_chat, base_url: "http://p2/v1", abilities: {{tools: false}}}}
models:
  - {{id: a, vendor: v, rupiah_per_1m_tokens: {{input: 1, output: 1}}, served_by: [{{provider: {P1}}}]}}
  - {{id: b, vendor: v, rupiah_per_1m_tokens: {{input: 1, output: 1}}, served_by: [{{provider: {P2}}}]}}
  - {{id: "c:free", vendor: v, free: true, served_by: [{{provider: {P1}}}]}}
  - {{id: painter, vendor: v, endpoints: [images], unit_price: {{per: image, rupiah: 1}},
     served_by: [{{provider: {P1}}}]}}
"""


@pytest.fixture
async def router(tmp_path: Path, dsn: str, kafka: str) -> AsyncIterator[Router]:
    async with Router(tmp_path, dsn, kafka, MODELS) as running:
        yield running


async def create(router: Router, account: str, name: str) -> router_pb2.NamedRoute:
    request = router_pb2.CreateRouteRequest(account_id=account, name=name)
    return (await router.routes.CreateRoute(request, timeout=5)).route  # type: ignore[no-any-return]


async def save(
    router: Router, account: str, route: router_pb2.NamedRoute, *models: str, strategy: Strategy = FALLBACK
) -> router_pb2.NamedRoute:
    steps = [router_pb2.RouteStep(model=model, credential="balance", weight=1) for model in models]
    wanted = router_pb2.NamedRoute(route_id=route.route_id, name=route.name, strategy=strategy, steps=steps)
    request = router_pb2.SaveRouteRequest(account_id=account, route=wanted)
    return (await router.routes.SaveRoute(request, timeout=5)).route  # type: ignore[no-any-return]


async def built(
    router: Router, account: str, name: str, *models: str, strategy: Strategy = FALLBACK
) -> router_pb2.NamedRoute:
    return await save(router, account, await create(router, account, name), *models, strategy=strategy)


async def listed(router: Router, account: str) -> list[router_pb2.NamedRoute]:
    request = router_pb2.ListRoutesRequest(account_id=account)
    return list((await router.routes.ListRoutes(request, timeout=5)).routes)


async def models(router: Router, account: str, name: str) -> list[str]:
    route = (await router.ask(name, account)).route
    return [one.model.id for one in (route, *route.others)]


@pytest.mark.rule("ROUTE-008", "ROUTE-023", "FREE-011")
async def test_a_new_route_has_no_steps_and_falls_back_and_the_built_in_one_is_listed_first(router: Router) -> None:
    account = unique("acct")
    made = await create(router, account, "cheap-first")
    assert (made.name, made.strategy, list(made.steps), made.built_in) == ("cheap-first", FALLBACK, [], False)
    assert [(one.name, one.built_in) for one in await listed(router, account)] == [
        ("kenari-free", True),
        ("cheap-first", False),
    ]
    refusal = (await router.ask("cheap-first", account)).refusal
    assert (refusal.code, "no step" in refusal.message) == ("bad_request", True)


@pytest.mark.rule("ROUTE-010", "ROUTE-031", "ROUTE-032", "ROUTE-033")
async def test_its_name_runs_its_steps_from_the_next_request_on_and_only_for_its_account(router: Router) -> None:
    account = unique("acct")
    route = await built(router, account, "mine", "a", "b")
    assert await models(router, account, "mine") == ["a", "b"]
    assert (await router.ask("mine", account)).route.route_name == "mine"
    await save(router, account, route, "b", "c:free", "a")
    assert await models(router, account, "mine") == ["b", "c:free", "a"]
    for nobodys in ("mine", "fx\0", "x" * 65, ""):
        assert (await router.ask(nobodys, unique("acct"))).refusal.code == "model_not_found"
    await router.routes.DeleteRoute(
        router_pb2.DeleteRouteRequest(account_id=account, route_id=route.route_id), timeout=5
    )
    assert (await router.ask("mine", account)).refusal.code == "model_not_found"


@pytest.mark.rule("ROUTE-012", "ROUTE-016", "ROUTE-017", "ROUTE-018", "ROUTE-019", "ROUTE-020")
async def test_what_cannot_be_a_route_is_refused_with_its_reason(router: Router) -> None:
    account, other = unique("acct"), unique("acct")
    route = await built(router, account, "mine", "a")
    second = await create(router, account, "other")

    async def reason(attempt: object) -> str:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await attempt  # type: ignore[misc]
        return from_call(refused.value).reason

    for name in ("kenari-free", "byok/x", "x" * 65, "a", "fast:high"):
        assert await reason(create(router, account, name)) == "invalid"
    assert await reason(create(router, account, "mine")) == "already_exists"
    assert (await create(router, other, "mine")).name == "mine"
    second.name = "mine"
    assert await reason(save(router, account, second, "a")) == "already_exists"
    for model in ("painter", "nothing", "", "kenari-free", "mine"):
        assert await reason(save(router, account, route, model)) == "invalid"
    assert await reason(save(router, other, route, "a")) == "not_found"
    built_in = (await listed(router, account))[0]
    assert await reason(save(router, account, built_in, "a")) == "invalid"
    # Nothing of what was refused is left behind.
    assert await models(router, account, "mine") == ["a"]


@pytest.mark.rule("ROUTE-025")
async def test_round_robin_takes_turns_over_all_routers(router: Router, tmp_path: Path, dsn: str, kafka: str) -> None:
    account = unique("acct")
    await built(router, account, "turns", "a", "b", "c:free", strategy=ROUND_ROBIN)
    async with Router(tmp_path / "second", dsn, kafka, MODELS) as second:
        firsts = [(await models(one, account, "turns"))[0] for one in (router, second) * 3]
    assert firsts == ["a", "b", "c:free"] * 2


@pytest.mark.rule("ROUTE-028", "ROUTE-029")
async def test_the_fastest_step_comes_first_once_all_are_known(router: Router, tmp_path: Path, kafka: str) -> None:
    account = unique("acct")
    await built(router, account, "fast", "a", "b", strategy=router_pb2.STRATEGY_LATENCY)
    assert await models(router, account, "fast") == ["a", "b"]
    async with Watcher(kafka, tmp_path / "spool") as edge:
        edge.tried(f"{P1}/default", "completed", first_byte_ms=300, model="a")
        await eventually(router, account, "fast", ["b", "a"])
        edge.tried(f"{P2}/default", "completed", first_byte_ms=500, model="b")
        await eventually(router, account, "fast", ["a", "b"])


async def eventually(router: Router, account: str, name: str, expected: list[str]) -> None:
    for _ in range(500):
        if await models(router, account, name) == expected:
            return
    raise AssertionError(f"{name} does not become {expected}")


async def test_tools_pass_over_steps_that_do_not_take_them(router: Router) -> None:
    account = unique("acct")
    await built(router, account, "mine", "b", "a")
    question = router_pb2.RouteRequest(request_id="r", account_id=account, model="mine", endpoint="chat", tools=True)
    answer = (await router.checks.ask("route", question, 2.0)).route
    assert (answer.model.id, list(answer.others), answer.route_name) == ("a", [], "mine")


@pytest.mark.rule("ROUTE-011")
async def test_a_route_is_for_chats_alone(router: Router) -> None:
    account = unique("acct")
    await built(router, account, "mine", "a")
    question = router_pb2.RouteRequest(request_id="r", account_id=account, model="mine", endpoint="images")
    assert (await router.stub.Route(question, timeout=2)).refusal.code == "model_not_found"


async def test_a_route_goes_on_winning_over_a_model_that_came_later(
    router: Router, tmp_path: Path, dsn: str, kafka: str
) -> None:
    account = unique("acct")
    name = unique("later")
    await built(router, account, name, "a")
    prices = "rupiah_per_1m_tokens: {input: 1, output: 1}"
    later = f"{MODELS}  - {{id: {name}, vendor: v, {prices}, served_by: [{{provider: {P1}}}]}}\n"
    async with Router(tmp_path / "later", dsn, kafka, later) as second:
        await until(lambda: not second.service.problems())
        for _ in range(500):
            if await models(second, account, name) == ["a"]:
                break
        assert await models(second, account, name) == ["a"]
        assert await models(second, unique("acct"), name) == [name]
