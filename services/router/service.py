"""Answers route questions from memory: no IO, no waiting, a few microseconds each.

Called by rpc.py (questions) and keeper.py (a new catalogue).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from random import shuffle
from typing import TypeAlias

from kenari.router.v1 import router_pb2

from libs.core.clock import Clock
from libs.events.router import ModelPublished, Price
from libs.ops.telemetry import Telemetry
from services.router import answers, domain
from services.router.catalog.cards import Catalog, Offer, Upstream
from services.router.catalog.fields import FREE_ROUTE
from services.router.domain import Server
from services.router.explain import explain
from services.router.health import HealthBook
from services.router.telemetry import MODELS, ROUTES

_Decided: TypeAlias = tuple[str, router_pb2.RouteResponse]
"""The outcome as it is counted, and the answer."""

_OUTCOMES = ("routed", "probed", "model_not_found", "bad_request", "no_wire_for_modality", "all_providers_failed")


class _Prepared:
    """Servers of a model with their attempts as messages, and the answers that hold while nobody's health changes."""

    __slots__ = ("answers", "attempts", "epoch", "model", "plan", "servers")

    def __init__(self, model: router_pb2.Model, servers: list[tuple[Server, Upstream]]) -> None:
        self.servers = [server for server, _ in servers]
        self.model = model
        self.attempts = [answers.attempt_message(server, upstream) for server, upstream in servers]
        self.epoch = -1
        self.plan = domain.plan((), (), (), 0)
        self.answers: dict[int, router_pb2.RouteResponse] = {}

    def answer(self, order: tuple[int, ...]) -> router_pb2.RouteResponse:
        tries = [self.attempts[n] for n in order]
        return router_pb2.RouteResponse(route=router_pb2.Route(model=self.model, attempts=tries))


class _Offered:
    """A model for sale: for each set of needs those of its servers that can carry them."""

    __slots__ = ("_able", "_all", "_model", "_servers", "card", "endpoints")

    def __init__(self, offer: Offer, upstreams: dict[str, Upstream]) -> None:
        self.card = offer.card
        self.endpoints = frozenset(offer.card.endpoints)
        self._model = answers.model_message(offer.card)
        self._servers = [(server, upstreams[server.upstream_id]) for server in offer.servers]
        self._all = _Prepared(self._model, self._servers)
        self._able: dict[tuple[bool, bool], _Prepared] = {(False, False): self._all}

    @property
    def servers(self) -> list[tuple[Server, Upstream]]:
        """All who serve it, whatever they can carry."""
        return self._servers

    def able(self, tools: bool, remote_images: bool) -> _Prepared:
        """The servers that take tools and fetch pictures at addresses, as far as asked; perhaps none."""
        prepared = self._able.get((tools, remote_images))
        if prepared is None:
            kept = [
                (server, upstream)
                for server, upstream in self._servers
                if (upstream.provider.abilities.tools or not tools)
                and (upstream.provider.abilities.remote_images or not remote_images)
            ]
            prepared = self._all if len(kept) == len(self._servers) else _Prepared(self._model, kept)
            self._able[tools, remote_images] = prepared
        return prepared


class Routing:
    """The routes of this process: the catalogue and the health book in memory, answers built once and reused."""

    def __init__(self, book: HealthBook, clock: Clock, telemetry: Telemetry) -> None:
        self._book = book
        self._clock = clock
        self._offered: dict[str, _Offered] = {}
        self._free: list[_Offered] = []
        self._forwards: Mapping[str, str] = {}
        self._prices: dict[str, Price] = {}
        self._models = telemetry.metrics.gauge(MODELS)
        routes = telemetry.metrics.counter(ROUTES)
        self._count = {outcome: routes.labels(outcome).inc for outcome in _OUTCOMES}

    def offer(self, catalog: Catalog) -> None:
        """Sell what ``catalog`` holds from now on. Answers already given stay valid."""
        upstreams = dict(catalog.upstreams)
        self._offered = {name: _Offered(offer, upstreams) for name, offer in catalog.offers.items()}
        self._free = [offered for offered in self._offered.values() if _on_free_route(offered.card)]
        self._forwards = catalog.forwards
        self._prices.update((card.price.version, card.price) for card in catalog.cards())
        for name in upstreams:
            self._book.watch(name)
        self._models.set(len(self._offered))

    def price(self, version: str) -> Price | None:
        """A price version that is or was in use since this process started."""
        return self._prices.get(version)

    def route(self, asked: router_pb2.RouteRequest) -> router_pb2.RouteResponse:
        """Decide who serves a request. The answer is shared: it must not be changed."""
        outcome, answer = self._free_route(asked) if asked.model == FREE_ROUTE else self._one_model(asked, asked.model)
        self._count[outcome]()
        return answer

    def endpoints_of(self, model: str) -> frozenset[str]:
        """Where a model can be called, itself or by its successor; empty when it is not for sale."""
        offered = self._offered.get(self._forwards.get(model, model))
        return offered.endpoints if offered is not None else frozenset()

    def known(self) -> set[str]:
        """The ids that mean a model."""
        return {*self._offered, *self._forwards}

    def by_steps(self, asked: router_pb2.RouteRequest, name: str, models: Sequence[str]) -> router_pb2.RouteResponse:
        """Decide who serves a request to the route of that name over these models, in this order."""
        if models:
            outcome, answer = _first_to_last(partial(self._one_model, asked, model) for model in models)
        else:
            outcome, answer = "bad_request", answers.no_steps(name)
        self._count[outcome]()
        return answers.named(answer, name) if answer.HasField("route") else answer

    def explained(self, asked: router_pb2.RouteRequest, model: str) -> list[router_pb2.Candidate]:
        """Who could serve the request by that model, and in which turn or why not."""
        offered = self._offered.get(self._forwards.get(model, model))
        if offered is None:
            return [router_pb2.Candidate(model=model, state="is not for sale")]
        if asked.endpoint not in offered.endpoints:
            return [router_pb2.Candidate(model=offered.card.id, state=f"is no model for {asked.endpoint}")]
        health = [self._book.of(server.upstream_id) for server, _ in offered.servers]
        return explain(offered.card.id, offered.servers, health, asked, self._clock.now_ms())

    def free_models(self) -> list[str]:
        """The models of the free route."""
        return sorted(offered.card.id for offered in self._free)

    def _one_model(self, asked: router_pb2.RouteRequest, model: str, *, probes: bool = True) -> _Decided:
        offered = self._offered.get(self._forwards.get(model, model))
        if offered is None:
            return "model_not_found", answers.not_found(model)
        if asked.endpoint not in offered.endpoints:
            return "bad_request", answers.wrong_endpoint(offered.card, asked.endpoint)
        prepared = offered.able(asked.tools, asked.remote_images)
        if not prepared.servers:
            return self._unable(offered, asked)
        return self._choose(prepared, asked, probes=probes)

    def _unable(self, offered: _Offered, asked: router_pb2.RouteRequest) -> _Decided:
        if asked.tools and not offered.able(True, False).servers:
            return "no_wire_for_modality", answers.nobody_carries_tools(offered.card.id)
        return "bad_request", answers.nobody_fetches_images()

    def _free_route(self, asked: router_pb2.RouteRequest) -> _Decided:
        """All free models that can serve the request now, in a random order (contract: The kenari-free route)."""
        if asked.endpoint != "chat":
            return "model_not_found", answers.not_found(asked.model)
        offered = [one for one in self._free if not asked.models or one.card.id in asked.models]
        if not offered:
            return "no_wire_for_modality", answers.no_free_model()
        if asked.tools:
            offered = [one for one in offered if one.card.tool_call and one.able(True, False).servers]
            if not offered:
                return "bad_request", answers.no_free_model_takes_tools()
        able = [one.able(asked.tools, asked.remote_images) for one in offered]
        able = [prepared for prepared in able if prepared.servers]
        if not able:
            return "bad_request", answers.nobody_fetches_images()
        shuffle(able)
        return _first_to_last(partial(self._choose, prepared, asked) for prepared in able)

    def _choose(self, prepared: _Prepared, asked: router_pb2.RouteRequest, *, probes: bool = True) -> _Decided:
        now_ms = self._clock.now_ms()
        plan = prepared.plan
        if prepared.epoch != self._book.epoch or 0 < plan.next_due_ms <= now_ms:
            plan = self._renew(prepared, now_ms)
        if plan.due and probes:
            return "probed", self._probe(prepared, asked.request_id, now_ms)
        if not plan.first:
            return "all_providers_failed", answers.all_paused(domain.retry_after_s(plan, now_ms))
        place = domain.pick(plan, f"{asked.account_id} {asked.session}") if len(plan.first) > 1 else 0
        answer = prepared.answers.get(place)
        if answer is None:
            answer = prepared.answers[place] = prepared.answer(domain.attempts(plan, place))
        return "routed", answer

    def _renew(self, prepared: _Prepared, now_ms: int) -> domain.Plan:
        servers = prepared.servers
        prepared.plan = domain.plan(
            servers,
            [self._book.of(server.upstream_id) for server in servers],
            [self._book.probing_until_ms(server.upstream_id) for server in servers],
            now_ms,
        )
        prepared.answers.clear()
        prepared.epoch = self._book.epoch
        return prepared.plan

    def _probe(self, prepared: _Prepared, request_id: str, now_ms: int) -> router_pb2.RouteResponse:
        """Send this request to a paused upstream first, with the healthy ones behind it."""
        plan, due = prepared.plan, prepared.plan.due[0]
        self._book.probe(prepared.servers[due].upstream_id, request_id, now_ms)
        answer = prepared.answer((due, *domain.attempts(plan, 0)))
        first, *others = answer.route.attempts
        if others:
            first.first_byte_timeout_ms = min(first.first_byte_timeout_ms, self._book.rules.probe_first_byte_ms)
        return answer


def _first_to_last(tries: Iterable[Callable[..., _Decided]]) -> _Decided:
    """One answer for several models, tried in this order; those that cannot serve now are left out.

    When none can, the shortest wait is told, or what is wrong with the first.
    """
    decided: list[_Decided] = []
    routes: list[router_pb2.RouteResponse] = []
    for one in tries:
        # A probe is for the model that is tried first: the others may never be.
        outcome, answer = one(probes=not routes)
        decided.append((outcome, answer))
        if answer.HasField("route"):
            routes.append(answer)
    if routes:
        return "routed", answers.several(routes)
    paused = [one for one in decided if one[0] == "all_providers_failed"]
    return min(paused, key=lambda one: one[1].refusal.retry_after_s) if paused else decided[0]


def _on_free_route(card: ModelPublished) -> bool:
    # Who has a plan is not known here: models for subscribers are left to those who name them.
    return card.free and "chat" in card.endpoints and not card.subscribers_only
