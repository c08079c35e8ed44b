"""The free route: the free models that can serve a request, each asked in its turn for a place of its quota.

Made by admission (contract: Free models, The kenari-free route; Subscriptions, When quota runs out).
"""

from collections.abc import Awaitable, Callable

from kenari.limiter.v1 import limiter_pb2
from kenari.router.v1 import router_pb2

from libs.llm.reasoning import AS_IS, gate
from services.edge.admitted import Admitted, Asked
from services.edge.errors import RefusedError, refuse
from services.edge.exchange import Header
from services.edge.fitting import fitting_max_tokens, gated_header


class FreeRoute:
    """The free models of one request, one after another.

    ``place`` asks the limiter for a model, ``give_back`` ends what was given, ``unused`` only what was drawn of the
    model's tokens. It is asked under the request's own id: limits of the account count the request once, whichever and
    however many models are tried; a model with limits of its own counts what reaches it.
    """

    def __init__(
        self,
        asked: Asked,
        route: router_pb2.Route,
        place: Callable[[Asked, str], Awaitable[limiter_pb2.Allowed]],
        give_back: Callable[[Asked, str], None],
        unused: Callable[[Asked, str], None],
    ) -> None:
        self._asked = asked
        self._route = route
        self._left = iter((route, *route.others))
        self._place = place
        self._give_back = give_back
        self._unused = unused
        self._tried: list[str] = []
        self._refused: RefusedError | None = None
        # Models by the quota their place is of. Kept to the end: a place given back and taken again counts twice.
        self._held: dict[str, str] = {}
        self._serving = ""

    async def first(self) -> Admitted:
        """The request to the first model that has room for it; raise the first one's RefusedError when none has."""
        admitted = Admitted(self._route, None, 0, AS_IS, leased=False, headers=(), others=self)
        if not await self.next(admitted):
            assert self._refused is not None
            raise self._refused
        return admitted

    async def next(self, admitted: Admitted) -> bool:
        """Make ``admitted`` a request to the next model that has room for it."""
        request = self._asked.request
        for route in self._left:
            model = route.model
            try:
                max_tokens = fitting_max_tokens(request, model)
                allowed = await self._place(self._asked, model.id)
            except RefusedError as refused:
                self._refused = self._refused or refused
                continue
            self._serving = _quota_of(model)
            self._tried.append(model.id)
            if allowed.leased:
                self._held[self._serving] = model.id
            if admitted.granted is not None:
                # What a capped key was granted stands for the models that follow.
                max_tokens = min(max_tokens, admitted.granted.max_tokens)
            admitted.route, admitted.max_tokens, admitted.leased = route, max_tokens, allowed.leased
            admitted.reasoning = gate(request.reasoning, model.reasoning, model.reasoning_options)
            admitted.headers = gated_header(request, admitted.reasoning) + limit_headers(allowed)
            return True
        return False

    def close(self) -> None:
        """Give back the places of models that failed, but for one that the model which served shares."""
        for model_id in self._tried[:-1]:
            self._unused(self._asked, model_id)
        for quota, model_id in self._held.items():
            if quota != self._serving:
                self._give_back(self._asked, model_id)


def _quota_of(model: router_pb2.Model) -> str:
    """Whose daily quota a model uses, "" for the account's."""
    return model.id if model.HasField("free_daily") else ""


def limit_headers(allowed: limiter_pb2.Allowed) -> tuple[Header, ...]:
    if not allowed.limit:
        return ()
    return (
        (b"x-ratelimit-limit", b"%d" % allowed.limit),
        (b"x-ratelimit-remaining", b"%d" % allowed.remaining),
        (b"x-ratelimit-reset", b"%d" % allowed.reset_unix_s),
    )


def quota_spent() -> RefusedError:
    """The plan is used up and the key has no free model to turn to (contract: Rate limits, Subscription quota windows).

    In Indonesian, as the contract has it.
    """
    message = (
        "kuota paket untuk model ini sudah habis dan kunci ini tidak mencakup model gratis; "
        "aktifkan pemakaian saldo atau tunggu sampai kuota terisi lagi"
    )
    refused = refuse(429, "plan_limit_reached", message)
    # SDKs would otherwise try again at once.
    refused.headers = ((b"x-should-retry", b"false"),)
    return refused
