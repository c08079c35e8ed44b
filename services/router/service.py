"""Answers route questions from memory: no IO, no waiting, a few microseconds each.

Called by rpc.py (questions) and keeper.py (a new catalogue).
"""

from kenari.router.v1 import router_pb2

from libs.core.clock import Clock
from libs.events.router import Price
from libs.ops.telemetry import Telemetry
from services.router import answers, domain
from services.router.catalog.cards import Catalog, Offer, Upstream
from services.router.health import HealthBook
from services.router.telemetry import MODELS, ROUTES

_OUTCOMES = ("routed", "probed", "model_not_found", "bad_request", "all_providers_failed")


class _Prepared:
    """A model with its attempts as messages, and the answers that hold while nobody's health changes."""

    __slots__ = ("answers", "attempts", "endpoints", "epoch", "model", "offer", "plan")

    def __init__(self, offer: Offer, upstreams: dict[str, Upstream]) -> None:
        self.offer = offer
        self.endpoints = frozenset(offer.card.endpoints)
        self.model = answers.model_message(offer.card)
        self.attempts = [answers.attempt_message(server, upstreams[server.upstream_id]) for server in offer.servers]
        self.epoch = -1
        self.plan = domain.plan((), (), (), 0)
        self.answers: dict[int, router_pb2.RouteResponse] = {}

    def answer(self, order: tuple[int, ...]) -> router_pb2.RouteResponse:
        tries = [self.attempts[n] for n in order]
        return router_pb2.RouteResponse(route=router_pb2.Route(model=self.model, attempts=tries))


class Routing:
    """The routes of this process: the catalogue and the health book in memory, answers built once and reused."""

    def __init__(self, book: HealthBook, clock: Clock, telemetry: Telemetry) -> None:
        self._book = book
        self._clock = clock
        self._prepared: dict[str, _Prepared] = {}
        self._prices: dict[str, Price] = {}
        self._models = telemetry.metrics.gauge(MODELS)
        routes = telemetry.metrics.counter(ROUTES)
        self._count = {outcome: routes.labels(outcome).inc for outcome in _OUTCOMES}

    def offer(self, catalog: Catalog) -> None:
        """Sell what ``catalog`` holds from now on. Answers already given stay valid."""
        upstreams = dict(catalog.upstreams)
        self._prepared = {name: _Prepared(offer, upstreams) for name, offer in catalog.offers.items()}
        self._prices.update((offer.card.price.version, offer.card.price) for offer in catalog.offers.values())
        for name in upstreams:
            self._book.watch(name)
        self._models.set(len(self._prepared))

    def price(self, version: str) -> Price | None:
        """A price version that is or was in use since this process started."""
        return self._prices.get(version)

    def route(self, model: str, endpoint: str, account_id: str, request_id: str) -> router_pb2.RouteResponse:
        """Decide who serves a request for ``model``. The answer is shared: it must not be changed."""
        prepared = self._prepared.get(model)
        if prepared is None:
            self._count["model_not_found"]()
            return answers.not_found(model)
        if endpoint not in prepared.endpoints:
            self._count["bad_request"]()
            return answers.wrong_endpoint(prepared.offer.card, endpoint)
        now_ms = self._clock.now_ms()
        plan = prepared.plan
        if prepared.epoch != self._book.epoch or 0 < plan.next_due_ms <= now_ms:
            plan = self._renew(prepared, now_ms)
        if plan.due:
            return self._probe(prepared, request_id, now_ms)
        if not plan.first:
            self._count["all_providers_failed"]()
            return answers.all_paused(domain.retry_after_s(plan, now_ms))
        self._count["routed"]()
        place = domain.pick(plan, account_id) if len(plan.first) > 1 else 0
        answer = prepared.answers.get(place)
        if answer is None:
            answer = prepared.answers[place] = prepared.answer(domain.attempts(plan, place))
        return answer

    def _renew(self, prepared: _Prepared, now_ms: int) -> domain.Plan:
        servers = prepared.offer.servers
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
        self._book.probe(prepared.offer.servers[due].upstream_id, request_id, now_ms)
        self._count["probed"]()
        answer = prepared.answer((due, *domain.attempts(plan, 0)))
        first, *others = answer.route.attempts
        if others:
            first.first_byte_timeout_ms = min(first.first_byte_timeout_ms, self._book.rules.probe_first_byte_ms)
        return answer
