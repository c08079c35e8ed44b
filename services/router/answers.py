"""Route answers as messages: built when catalogue or health change, then handed out again and again.

Called by services/router/service.py.
"""

from collections.abc import Sequence

from kenari.router.v1 import router_pb2

from libs.events.router import ModelPublished, Price
from services.router.catalog.cards import Upstream
from services.router.catalog.models import ENDPOINTS
from services.router.domain import Server

_FORMATS = {
    "openai_chat": router_pb2.PROVIDER_FORMAT_OPENAI_CHAT,
    "openai_responses": router_pb2.PROVIDER_FORMAT_OPENAI_RESPONSES,
    "anthropic": router_pb2.PROVIDER_FORMAT_ANTHROPIC,
    "gemini": router_pb2.PROVIDER_FORMAT_GEMINI,
    "simulated": router_pb2.PROVIDER_FORMAT_SIMULATED,
}
_PATHS = {
    "chat": "POST /v1/chat/completions",
    "images": "POST /v1/images/generations",
    "videos": "POST /v1/videos/generations",
    "audio_speech": "POST /v1/audio/speech",
    "audio_transcription": "POST /v1/audio/transcriptions",
    "music": "POST /v1/music/generations",
    "embeddings": "POST /v1/embeddings",
    "rerank": "POST /v1/rerank",
    "moderations": "POST /v1/moderations",
    "systemone": "POST /v1/systemone",
}
assert tuple(_PATHS) == ENDPOINTS
_LONGEST_NAME = 80


def price_message(price: Price) -> router_pb2.Price:
    """A price version on the wire."""
    return router_pb2.Price(
        version=price.version,
        input=price.input,
        output=price.output,
        cache_read=price.cache_read,
        cache_write=price.cache_write,
        unit=price.unit,
    )


def model_message(card: ModelPublished) -> router_pb2.Model:
    """What the edge, the limiter and the ledger need of a model; 0 where a limit is not recorded."""
    return router_pb2.Model(
        id=card.id,
        vendor=card.vendor,
        free=card.free,
        price=price_message(card.price),
        context_length=card.context_length or 0,
        max_input_tokens=card.max_input_tokens or 0,
        max_output_tokens=card.max_output_tokens or 0,
        free_rpm=card.free_rpm,
        free_daily=card.free_daily,
        reasoning=bool(card.reasoning),
        reasoning_options=card.reasoning_options,
        subscribers_only=card.subscribers_only,
    )


def attempt_message(server: Server, upstream: Upstream) -> router_pb2.Attempt:
    """One way to try the request, with everything the edge needs for the call."""
    provider = upstream.provider
    return router_pb2.Attempt(
        upstream_id=upstream.id,
        provider=provider.id,
        format=_FORMATS[provider.format],
        base_url=provider.base_url,
        credential=upstream.credential,
        upstream_model=server.upstream_model,
        connect_timeout_ms=provider.timeouts.connect_ms,
        first_byte_timeout_ms=provider.timeouts.first_byte_ms,
        idle_timeout_ms=provider.timeouts.idle_ms,
        content_timeout_ms=provider.timeouts.content_ms,
        json_format=bool(provider.abilities.json_format),
        cache_marks=bool(provider.abilities.cache_marks),
        adaptive_thinking=bool(provider.abilities.adaptive_thinking),
    )


def not_found(model: str) -> router_pb2.RouteResponse:
    """Neither a model for sale nor anything else that can be called by this name."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in model[:_LONGEST_NAME])
    return _refused(
        "model_not_found",
        f"the model {shown!r} does not exist or you cannot use it; GET /v1/models lists the models you can call",
    )


def wrong_endpoint(card: ModelPublished, asked: str) -> router_pb2.RouteResponse:
    """The model is of another kind; names where it can be called (contract: Chat completions > Errors)."""
    places = " or ".join(_PATHS[endpoint] for endpoint in card.endpoints)
    kind = "a chat model" if asked == "chat" else f"a model for {_PATHS.get(asked, asked)}"
    return _refused("bad_request", f"{card.id!r} is not {kind}; call it with {places}")


def nobody_carries_tools(model: str) -> router_pb2.RouteResponse:
    """Tools are never left out of a request: without a provider that takes them it is refused."""
    return _refused("no_wire_for_modality", f"no provider of {model!r} takes tools right now; use another model")


def no_free_model() -> router_pb2.RouteResponse:
    """Nothing is behind the free route, or nothing that the caller may use."""
    return _refused("no_wire_for_modality", "no free model can be used right now; name a model of GET /v1/models")


def no_free_model_takes_tools() -> router_pb2.RouteResponse:
    """Contract: Free models, The kenari-free route."""
    return _refused("bad_request", "no free model takes tools right now; name a model with tool_call true")


def several(routes: Sequence[router_pb2.RouteResponse]) -> router_pb2.RouteResponse:
    """One answer from the answers for several models, in the order in which they are to be tried."""
    answer = router_pb2.RouteResponse()
    answer.CopyFrom(routes[0])
    answer.route.others.extend(routed.route for routed in routes[1:])
    return answer


def named(answer: router_pb2.RouteResponse, name: str) -> router_pb2.RouteResponse:
    """The answer of ``several`` as that of an account's route."""
    answer.route.route_name = name
    return answer


def no_steps(name: str) -> router_pb2.RouteResponse:
    """The route is empty, or no model of its steps is for sale any more."""
    return _refused("bad_request", f"the route {name!r} has no step that can be used; add one")


def nobody_fetches_images() -> router_pb2.RouteResponse:
    """A picture at an address, and no provider that would fetch it (contract: Images and files as input)."""
    return _refused("bad_request", "remote image URL not supported by upstream")


def all_paused(retry_after_s: int) -> router_pb2.RouteResponse:
    """Every upstream of the model is paused (contract: Rate limits > Provider limits and outages)."""
    message = "every provider of this model is paused right now; retry after the seconds in Retry-After"
    return _refused("all_providers_failed", message, retry_after_s)


def _refused(code: str, message: str, retry_after_s: int = 0) -> router_pb2.RouteResponse:
    return router_pb2.RouteResponse(refusal=router_pb2.Refusal(code=code, message=message, retry_after_s=retry_after_s))
