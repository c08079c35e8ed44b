"""A named route at the edge: each step has its own hold, and one that cannot run is passed over."""

from typing import Any

import pytest
from kenari.ledger.v1 import ledger_pb2
from kenari.limiter.v1 import limiter_pb2
from kenari.router.v1 import router_pb2

from libs.llm.canonical import Effort
from services.edge.admitted import Admitted
from services.edge.errors import RefusedError
from services.edge.keys import Caller
from services.edge.scope import FREE_ROUTE
from tests.unit.edge.peers import Peers, asked, caller, routed
from tests.unit.edge.published import card, catalog

CHEAP = router_pb2.Model(id="cheap", price=router_pb2.Price(version="p1"), context_length=1_000)
DEAR = router_pb2.Model(
    id="dear", price=router_pb2.Price(version="p2"), reasoning=True, reasoning_options=["low", "high"]
)
FREE = router_pb2.Model(id="a:free", free=True)
OTHER = router_pb2.Model(id="b:free", free=True)


def peers(*steps: router_pb2.Model) -> Peers:
    def route(question: router_pb2.RouteRequest) -> router_pb2.RouteResponse:
        if question.model == FREE_ROUTE:
            return routed(FREE, OTHER)
        answer = routed(*steps)
        answer.route.route_name = "mine"
        return answer

    return Peers(catalog(card("a:free", free=True), card("b:free", free=True)), route)


def grants(**kinds: str) -> Any:
    """A ledger that answers by model: with a kind of billing, "redirect", or the code of a refusal."""

    def reserve(question: ledger_pb2.ReserveRequest) -> ledger_pb2.ReserveResponse:
        kind = kinds[question.model]
        if kind == "redirect":
            return ledger_pb2.ReserveResponse(redirect=ledger_pb2.Redirect(reason="quota"))
        if kind in ("payg", "plan"):
            granted = ledger_pb2.Granted(billing_kind=kind, max_tokens=question.max_tokens, descriptor=question.model)
            return ledger_pb2.ReserveResponse(granted=granted)
        return ledger_pb2.ReserveResponse(denied=ledger_pb2.Denied(status=402, code=kind, message="no"))

    return reserve


async def admit(world: Peers, **more: Any) -> Admitted:
    return await world.admission.admit(asked("mine", **more))


def holds(world: Peers) -> list[tuple[str, int]]:
    return [(question.model, question.line) for question in world.ledger.questions("reserve")]


@pytest.mark.rule("ROUTE-031", "ROUTE-042", "ROUTE-044", "LIMIT-014")
async def test_each_step_is_held_by_itself_and_the_one_before_given_back() -> None:
    world = peers(CHEAP, DEAR)
    world.ledger.answers["reserve"] = grants(cheap="payg", dear="plan")
    admitted = await admit(world)
    assert (admitted.route.model.id, admitted.billing_kind, admitted.line) == ("cheap", "payg", 0)
    assert (admitted.max_tokens, world.released) == (990, [])
    assert await admitted.go_on()
    assert (admitted.route.model.id, admitted.billing_kind, admitted.line) == ("dear", "plan", 1)
    assert world.released == [("r1", 0)]
    assert holds(world) == [("cheap", 0), ("dear", 1)]
    assert world.held == [("r1", 0), ("r1", 1)]
    # The limiter counts the request once, as a paid one.
    assert world.places == ["mine"]
    assert not await admitted.go_on()
    assert world.released == [("r1", 0), ("r1", 1)]
    assert admitted.granted is None


@pytest.mark.rule("ROUTE-030")
async def test_a_step_that_cannot_be_paid_or_is_too_small_is_passed_over() -> None:
    world = peers(CHEAP, DEAR)
    world.ledger.answers["reserve"] = grants(cheap="payg", dear="payg")
    assert (await admit(world, input_tokens=2_000)).route.model.id == "dear"
    world.ledger.answers["reserve"] = grants(cheap="insufficient_balance", dear="payg")
    assert (await admit(world)).route.model.id == "dear"


async def test_when_no_step_can_run_the_first_ones_refusal_is_the_answer() -> None:
    world = peers(CHEAP, DEAR)
    world.ledger.answers["reserve"] = grants(cheap="insufficient_balance", dear="payg_limit_reached")
    with pytest.raises(RefusedError) as refused:
        await admit(world)
    assert (refused.value.error.status, refused.value.error.code) == (402, "insufficient_balance")


@pytest.mark.rule("ROUTE-043", "FREE-014")
async def test_a_free_step_is_held_by_nobody_and_counts_against_the_free_limits() -> None:
    world = peers(CHEAP, FREE)
    world.ledger.answers["reserve"] = grants(cheap="insufficient_balance")
    admitted = await admit(world)
    assert (admitted.route.model.id, admitted.billing_kind, admitted.leased) == ("a:free", "free", True)
    assert world.places == ["mine", "a:free"]
    assert (b"x-ratelimit-limit", b"20") in admitted.headers
    assert not await admitted.go_on()
    assert world.given_back == [("a:free", False)]
    assert not admitted.leased


async def test_a_step_whose_plan_is_spent_is_served_by_the_free_models_before_the_next_step() -> None:
    world = peers(CHEAP, DEAR)
    world.ledger.answers["reserve"] = grants(cheap="redirect", dear="payg")
    admitted = await admit(world)
    assert (admitted.route.model.id, admitted.granted) == ("a:free", None)
    assert await admitted.go_on()
    assert admitted.route.model.id == "b:free"
    assert await admitted.go_on()
    assert (admitted.route.model.id, admitted.line, admitted.leased) == ("dear", 1, False)
    assert world.given_back == [("b:free", False)]


@pytest.mark.rule("RSN-039", "RSN-041")
async def test_a_level_becomes_what_each_step_has_of_it() -> None:
    world = peers(CHEAP, DEAR)
    world.ledger.answers["reserve"] = grants(cheap="payg", dear="payg")
    admitted = await admit(world, level=Effort.MEDIUM)
    assert admitted.reasoning.state == "as_is"
    assert await admitted.go_on()
    assert admitted.reasoning.effort is Effort.LOW


@pytest.mark.rule("RSN-040")
async def test_a_level_that_routes_do_not_take_is_refused() -> None:
    with pytest.raises(RefusedError) as refused:
        await admit(peers(CHEAP), level=Effort.NONE)
    assert (refused.value.error.status, refused.value.error.code) == (400, "bad_request")


@pytest.mark.rule("ROUTE-038", "ROUTE-039", "ROUTE-040", "AUTH-062")
@pytest.mark.parametrize("who", [caller("mine"), caller(capped=True)], ids=["scope", "capped"])
async def test_a_key_with_restrictions_uses_no_route(who: Caller) -> None:
    world = peers(CHEAP)
    with pytest.raises(RefusedError) as refused:
        await admit(world, who=who)
    assert (refused.value.error.status, refused.value.error.code) == (400, "bad_request")
    assert not world.ledger.asked


async def test_a_limit_of_the_account_holds_for_routes() -> None:
    world = peers(CHEAP)
    refusal = limiter_pb2.AdmitResponse(refused=limiter_pb2.Refused(code="rate_limit_exceeded"))
    world.limiter.answers["admit"] = lambda _: refusal
    with pytest.raises(RefusedError) as refused:
        await admit(world)
    assert refused.value.error.code == "rate_limit_exceeded"
    assert not world.ledger.asked
