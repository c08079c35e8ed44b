"""The free route at the edge: who may use it, what it counts as, and how it goes on from model to model."""

from dataclasses import replace
from typing import Any

import pytest
from kenari.ledger.v1 import ledger_pb2
from kenari.limiter.v1 import limiter_pb2
from kenari.router.v1 import router_pb2

from libs.llm.canonical import Effort
from services.edge.errors import RefusedError
from services.edge.keys import Caller
from services.edge.scope import FREE_ROUTE, check_model
from tests.unit.edge.peers import Peers, asked, caller, routed
from tests.unit.edge.published import card, catalog

A = router_pb2.Model(id="a:free", free=True, context_length=1_000, max_output_tokens=400)
B = router_pb2.Model(id="b:free", free=True, context_length=50_000, reasoning=True, reasoning_options=["low", "high"])
OWN = router_pb2.Model(id="own:free", free=True, free_daily=5)
BUDGETED = router_pb2.Model(id="budgeted:free", free=True)
PAID = router_pb2.Model(id="m", price=router_pb2.Price(version="p1"))


def peers(*free: router_pb2.Model, refusal: str = "") -> Peers:
    def route(question: router_pb2.RouteRequest) -> router_pb2.RouteResponse:
        if question.model != FREE_ROUTE:
            return routed(PAID)
        if refusal:
            return router_pb2.RouteResponse(refusal=router_pb2.Refusal(code=refusal))
        return routed(*free)

    own = card("own:free", free=True, free_daily=5)
    budgeted = card("budgeted:free", free=True, free_token_budget=500)
    return Peers(catalog(card("a:free", free=True), card("b:free", free=True), own, budgeted), route)


def refuses(*models: str, code: str = "free_quota_rpm") -> Any:
    """A limiter without a place for these models."""

    def admit(question: limiter_pb2.AdmitRequest) -> limiter_pb2.AdmitResponse:
        if question.model in models:
            return limiter_pb2.AdmitResponse(refused=limiter_pb2.Refused(code=code, retry_after_s=7))
        return limiter_pb2.AdmitResponse(allowed=limiter_pb2.Allowed(limit=20, leased=True))

    return admit


def denies(_: Any) -> ledger_pb2.ReserveResponse:
    return ledger_pb2.ReserveResponse(denied=ledger_pb2.Denied(status=402, code="insufficient_balance", message="no"))


def redirects(_: Any) -> ledger_pb2.ReserveResponse:
    return ledger_pb2.ReserveResponse(redirect=ledger_pb2.Redirect(reason="quota"))


@pytest.mark.rule("FREE-002", "FREE-006", "LIMIT-014", "LIMIT-030", "FREE-014")
async def test_it_is_counted_as_free_and_held_by_nobody() -> None:
    world = peers(A, B)
    admitted = await world.admission.admit(asked(FREE_ROUTE))
    assert (admitted.route.model.id, admitted.billing_kind, admitted.granted) == ("a:free", "free", None)
    assert (admitted.max_tokens, admitted.leased) == (400, True)
    assert (b"x-ratelimit-limit", b"20") in admitted.headers
    subjects = {question.subject for question in world.limiter.questions("admit")}
    assert subjects == {limiter_pb2.SUBJECT_FREE_CHAT}
    assert not world.ledger.asked


@pytest.mark.rule("FREE-012", "ROUTE-038", "ROUTE-039", "ROUTE-040", "AUTH-062")
@pytest.mark.parametrize(
    "who",
    [caller("a:free"), caller(FREE_ROUTE), caller(capped=True), caller("a:free", shared=True)],
    ids=["scope", "scope-of-its-name", "capped", "shared"],
)
def test_a_key_with_restrictions_cannot_use_it(who: Caller) -> None:
    with pytest.raises(RefusedError) as refused:
        check_model(who, FREE_ROUTE)
    assert (refused.value.error.status, refused.value.error.code) == (400, "bad_request")


@pytest.mark.rule("FREE-008")
async def test_the_next_model_takes_over_the_place_of_the_one_that_failed() -> None:
    world = peers(A, B)
    admitted = await world.admission.admit(asked(FREE_ROUTE))
    assert await admitted.go_on()
    assert (admitted.route.model.id, admitted.leased) == ("b:free", True)
    assert admitted.max_tokens == 50_000 - 10
    assert not await admitted.go_on()
    assert admitted.route.model.id == "b:free"
    # Under one request id, so that the account's limits count it once.
    assert {question.request_id for question in world.limiter.questions("admit")} == {"r1"}
    assert world.given_back == []


@pytest.mark.rule("FREE-022")
async def test_a_model_with_limits_of_its_own_is_asked_for_and_given_back() -> None:
    world = peers(A, OWN, B)
    admitted = await world.admission.admit(asked(FREE_ROUTE))
    assert await admitted.go_on()
    assert admitted.route.model.id == "own:free"
    assert world.limiter.questions("admit")[-1].model_free_daily == 5
    assert await admitted.go_on()
    # A place that went back and was taken again would count twice.
    assert world.given_back == []
    assert admitted.others is not None
    admitted.others.close()
    # The account's place is now that of the last model, which ends with the request.
    assert world.given_back == [("own:free", False)]


async def test_the_accounts_place_goes_back_when_a_model_with_its_own_limits_serves() -> None:
    world = peers(A, OWN)
    admitted = await world.admission.admit(asked(FREE_ROUTE))
    assert await admitted.go_on()
    assert admitted.others is not None
    admitted.others.close()
    assert world.given_back == [("a:free", False)]


async def test_a_model_that_did_not_serve_gets_its_tokens_back_and_keeps_the_accounts_place() -> None:
    world = peers(BUDGETED, B)
    admitted = await world.admission.admit(asked(FREE_ROUTE, input_tokens=70))
    drawn = world.limiter.questions("admit")[0]
    assert (drawn.model_token_budget, drawn.tokens) == (500, 70)
    assert await admitted.go_on()
    assert admitted.others is not None
    admitted.others.close()
    (report,) = world.limiter.questions("done")
    assert (report.model, report.model_tokens, report.tokens) == ("budgeted:free", True, 0)
    assert report.subject == limiter_pb2.SUBJECT_PAID_CHAT, "not the end of the place, which the second one has"


async def test_the_end_tells_what_was_used_of_a_models_and_a_keys_tokens() -> None:
    world = peers(BUDGETED)
    who = replace(caller(), tokens_per_minute=9)
    request = asked("budgeted:free", who)
    world.admission.done(request, "budgeted:free", success=True, tokens=12)
    world.admission.done(asked("m", who), "m", success=True, tokens=30)
    world.admission.done(asked("m"), "m", success=True, tokens=30)
    free, paid = world.limiter.questions("done")
    assert (free.model_tokens, free.key_id, free.tokens, free.success) == (True, "key_1", 12, True)
    assert (paid.model_tokens, paid.key_id, paid.tokens) == (False, "key_1", 30)
    assert (free.subject, paid.subject) == (limiter_pb2.SUBJECT_FREE_CHAT, limiter_pb2.SUBJECT_PAID_CHAT)


@pytest.mark.rule("LIMIT-041")
async def test_a_shared_key_is_told_to_the_limiter_so_that_it_leaves_its_owners_pace_alone() -> None:
    world = peers(A)
    await world.admission.admit(asked("m", caller("m", shared=True)))
    await world.admission.admit(asked("m"))
    assert [question.key_shared for question in world.limiter.questions("admit")] == [True, False]


async def test_a_paid_request_that_fails_gives_its_keys_tokens_back() -> None:
    world = peers(A)
    world.ledger.answers["reserve"] = denies
    with pytest.raises(RefusedError):
        await world.admission.admit(asked("m", replace(caller(), tokens_per_minute=9)))
    (report,) = world.limiter.questions("done")
    assert (report.key_id, report.tokens, report.subject) == ("key_1", 0, limiter_pb2.SUBJECT_PAID_CHAT)


async def test_a_model_without_room_is_passed_over() -> None:
    world = peers(OWN, A, B)
    world.limiter.answers["admit"] = refuses("own:free")
    admitted = await world.admission.admit(asked(FREE_ROUTE, input_tokens=2_000))
    # The first has no place, the second is too small for the input.
    assert admitted.route.model.id == "b:free"
    assert world.places == ["own:free", "b:free"]
    assert world.given_back == []


@pytest.mark.rule("FREE-014")
async def test_when_no_model_has_room_the_first_refusal_is_the_answer() -> None:
    world = peers(OWN, B)
    world.limiter.answers["admit"] = refuses("own:free", "b:free")
    with pytest.raises(RefusedError) as refused:
        await world.admission.admit(asked(FREE_ROUTE))
    assert (refused.value.error.status, refused.value.error.code) == (429, "free_quota_rpm")
    assert (b"retry-after", b"7") in refused.value.headers


@pytest.mark.rule("RSN-039", "RSN-041")
async def test_each_model_gets_its_own_highest_level_at_or_below_the_one_named() -> None:
    world = peers(A, B)
    admitted = await world.admission.admit(asked(FREE_ROUTE, level=Effort.MEDIUM))
    assert admitted.reasoning.state == "as_is"
    assert await admitted.go_on()
    assert admitted.reasoning.effort is Effort.LOW
    assert (b"x-kenari-gated-effort", b"low") in admitted.headers


@pytest.mark.rule("RSN-040")
@pytest.mark.parametrize("level", [Effort.NONE, Effort.MINIMAL], ids=str)
async def test_a_route_does_not_take_every_level(level: Effort) -> None:
    with pytest.raises(RefusedError) as refused:
        await peers(A).admission.admit(asked(FREE_ROUTE, level=level))
    assert (refused.value.error.status, refused.value.error.code) == (400, "bad_request")


@pytest.mark.rule("SUB-039", "LIMIT-014")
async def test_a_paid_request_whose_quota_is_spent_becomes_a_free_one() -> None:
    world = peers(A, B)
    world.ledger.answers["reserve"] = redirects
    admitted = await world.admission.admit(asked("m"))
    assert (admitted.route.model.id, admitted.billing_kind, admitted.granted) == ("a:free", "free", None)
    assert world.places == ["m", "a:free"]
    assert [question.model for question in world.router.questions("route")] == ["m", FREE_ROUTE]
    assert world.released == []


async def test_a_redirected_request_finds_the_free_limits_in_its_way() -> None:
    world = peers(A)
    world.ledger.answers["reserve"] = redirects
    world.limiter.answers["admit"] = refuses("a:free", code="free_quota_daily")
    with pytest.raises(RefusedError) as refused:
        await world.admission.admit(asked("m"))
    assert refused.value.error.code == "free_quota_daily"


async def test_a_key_with_a_scope_turns_only_to_the_free_models_in_it() -> None:
    world = peers(A)
    world.ledger.answers["reserve"] = redirects
    await world.admission.admit(asked("m", caller("m", "b:free", "a:free")))
    assert list(world.router.questions("route")[-1].models) == ["a:free", "b:free"]


@pytest.mark.rule("SUB-041", "LIMIT-034")
@pytest.mark.parametrize("scope", [("m",), ("m", "gone:free")], ids=["none", "none-for-sale"])
async def test_without_a_free_model_in_the_scope_the_quota_is_the_answer(scope: tuple[str, ...]) -> None:
    world = peers(refusal="no_wire_for_modality")
    world.ledger.answers["reserve"] = redirects
    with pytest.raises(RefusedError) as refused:
        await world.admission.admit(asked("m", caller(*scope)))
    error = refused.value.error
    assert (error.status, error.code, error.param) == (429, "plan_limit_reached", None)
    assert "kuota" in error.message
    assert refused.value.headers == ((b"x-should-retry", b"false"),)


async def test_a_key_without_a_scope_learns_that_nothing_is_free() -> None:
    world = peers(refusal="no_wire_for_modality")
    world.ledger.answers["reserve"] = redirects
    with pytest.raises(RefusedError) as refused:
        await world.admission.admit(asked("m"))
    assert (refused.value.error.status, refused.value.error.code) == (503, "no_wire_for_modality")
