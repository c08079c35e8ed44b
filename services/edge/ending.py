"""How an admitted request ends: one settlement or release, and the limiter's Done where it waits for it.

Made by the chat endpoint for each admitted request; whatever happens, ``close`` is called at its end.
"""

from collections.abc import Callable

from kenari.router.v1 import router_pb2

from libs.core import pricing
from libs.llm.canonical import ChatRequest
from libs.llm.canonical import Usage as Tokens
from libs.llm.providers.base import Told
from libs.llm.tokens import tokens_of
from services.edge.admission import Admission
from services.edge.admitted import Admitted, Asked
from services.edge.believable import Believable
from services.edge.exchange import Header
from services.edge.reports import Reports, Run
from services.edge.settlement import Settlement, Usage


class Ending:
    """Settles what was used, once. ``delivered`` tells how many characters of the answer the client was sent."""

    def __init__(
        self,
        admission: Admission,
        settlement: Settlement,
        believable: Believable,
        reports: Reports,
        run: Run,
        asked: Asked,
        admitted: Admitted,
    ) -> None:
        self._admission = admission
        self._settlement = settlement
        self._believable = believable
        self._reports = reports
        self._asked = asked
        self._ended = False
        self._success = False
        self.run = run
        self.admitted = admitted
        self.delivered: Callable[[], int] = lambda: 0
        self.told = Told()

    @property
    def request(self) -> ChatRequest:
        """What was asked."""
        return self._asked.request

    def delivered_tokens(self) -> int:
        """An estimate of the output that has reached the client."""
        return tokens_of(self.delivered())

    def estimate(self) -> Tokens:
        """What was delivered, as far as the edge can tell."""
        return Tokens(prompt=self.request.input_tokens, completion=self.delivered_tokens())

    def believed(self, told: Tokens | None, own: Tokens) -> tuple[Tokens, bool]:
        """The usage to settle, and whether it is our own count."""
        admitted = self.admitted
        return self._believable.settled(told, own, self.request, admitted.route.model, admitted.max_tokens)

    def cost_header(self, tokens: Tokens) -> Header:
        """What the answer costs the balance, in micro-Rupiah, as the ledger is going to charge it."""
        cost = 0
        granted, price = self.admitted.granted, self.admitted.route.model.price
        if granted is not None and granted.billing_kind == "payg" and tokens.completion:
            used = pricing.Tokens(tokens.prompt, tokens.completion, tokens.cached, tokens.cache_write)
            of = pricing.free_cache_cost if granted.free_cache else pricing.chat_cost
            cost = of(_price(price), used)
        return b"x-kenari-cost-micro-idr", b"%d" % cost

    def settle(self, outcome: str, tokens: Tokens, *, estimated: bool) -> None:
        """Charge what was used; a second call changes nothing."""
        if self._ended:
            return
        self._ended = True
        self._success = outcome == "completed" and tokens.completion > 0
        run, model = self.run, self.admitted.route.model
        run.prompt_tokens, run.completion_tokens = tokens.prompt, tokens.completion
        # Of a route it is that of the step which served.
        run.billing_kind = self.admitted.billing_kind
        granted = self.admitted.granted
        usage = Usage(
            request_id=run.request_id,
            line=self.admitted.line,
            account_id=run.account_id,
            key_id=run.key_id,
            endpoint=run.endpoint,
            model=model.id,
            vendor=model.vendor,
            price_version=model.price.version,
            billing_kind=self.admitted.billing_kind,
            outcome=outcome,
            prompt_tokens=tokens.prompt,
            completion_tokens=tokens.completion,
            cached_tokens=tokens.cached,
            cache_write_tokens=tokens.cache_write,
            estimated=estimated,
            descriptor=granted.descriptor if granted is not None else "",
            started_at_ms=run.started_ms,
        )
        self._settlement.settle(run, usage)

    def close(self) -> None:
        """The request's task is at its end, by whatever way: what is not settled yet is settled or given back."""
        if not self._ended:
            self._end_unsettled()
        admitted = self.admitted
        if admitted.leased:
            # A retired model's place is that of its own id, whoever served it.
            model_id = self.request.model if admitted.others is None else admitted.route.model.id
            tokens = self.run.prompt_tokens + self.run.completion_tokens
            self._admission.done(self._asked, model_id, success=self._success, tokens=tokens)
        if admitted.others is not None:
            admitted.others.close()

    def _end_unsettled(self) -> None:
        if self.delivered():
            # The client left in the middle: what it has received is charged, or what the provider had told by then.
            self._reports.attempt(self.run, "client_closed", output_tokens=self.delivered_tokens())
            usage, estimated = self.believed(self.told.usage(), self.estimate())
            self.settle("client_closed", usage, estimated=estimated)
            return
        self._ended = True
        granted = self.admitted.granted
        if granted is not None and granted.descriptor:
            run = self.run
            line = self.admitted.line
            self._settlement.release(run.request_id, run.account_id, run.trace, "nothing delivered", line=line)


def _price(price: router_pb2.Price) -> pricing.Price:
    return pricing.Price(
        price.version,
        price.input,
        price.output,
        price.cache_read if price.HasField("cache_read") else None,
        price.cache_write if price.HasField("cache_write") else None,
    )
