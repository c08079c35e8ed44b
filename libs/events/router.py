"""Events of the router: the catalogue and the health of upstreams. Read by the edge and the ledger."""

from typing import ClassVar, Literal

from libs.events.base import EventData


class PriceLine(EventData):
    """One billable item of a model, as ``pricing_lines`` shows it (contract: Models and pricing)."""

    TYPE: ClassVar[str] = "router.price_line.v1"

    endpoint: str
    billable: str
    unit: str
    variant: str | None = None
    micro_idr: int


class Price(EventData):
    """A price version, in micro-Rupiah per million tokens. A version never changes."""

    TYPE: ClassVar[str] = "router.price.v1"

    version: str
    input: int
    output: int
    cache_read: int | None = None
    cache_write: int | None = None
    # Of models that are not billed by tokens: for one image, second, song, page or call.
    unit: int | None = None


class PriceChange(EventData):
    """A price that applies from a moment on, unless another is announced before."""

    TYPE: ClassVar[str] = "router.price_change.v1"

    # Unix seconds.
    effective_at: int
    price: Price


class Media(EventData):
    """What a request to a model for other things than chats may ask; nothing is recorded where a field is empty."""

    TYPE: ClassVar[str] = "router.media.v1"

    voices: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    max_input_chars: int | None = None
    max_prompt_chars: int | None = None
    max_lyrics_chars: int | None = None
    max_duration_secs: int | None = None
    video_durations: tuple[int, ...] = ()
    video_resolutions: tuple[str, ...] = ()
    max_reference_images: int | None = None
    video_extensions: bool = False


class Revision(EventData):
    """The vendor's newer state of a model under the same id."""

    TYPE: ClassVar[str] = "router.revision.v1"

    name: str
    # Unix seconds.
    at: int
    note_id: str | None = None
    note_en: str | None = None


class ModelPublished(EventData):
    """One model as it is for sale now. A tombstone on the same key takes it from the list.

    Of kind ``fee`` it is what a tool of ours costs, of kind ``rate`` what a dollar costs (``usd_idr``, its day in the
    name): it has the price of a unit, and is neither listed nor called.
    """

    TYPE: ClassVar[str] = "router.model_published.v1"

    id: str
    version: int
    kind: Literal["model", "fee", "rate"] = "model"
    vendor: str
    name: str
    free: bool
    endpoints: tuple[str, ...]
    input_modalities: tuple[str, ...] = ("text",)
    output_modalities: tuple[str, ...] = ("text",)
    context_length: int | None = None
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    reasoning: bool | None = None
    reasoning_options: tuple[str, ...] = ()
    reasoning_toggle: bool = False
    tool_call: bool | None = None
    price: Price
    price_lines: tuple[PriceLine, ...] = ()
    free_rpm: int | None = None
    free_daily: int | None = None
    # Tokens that all accounts together may use of a free model within the limiter's window.
    free_token_budget: int | None = None
    media: Media | None = None
    # Micro-Rupiah per million tokens that the model costs elsewhere.
    market_input: int | None = None
    market_output: int | None = None
    upcoming_price: PriceChange | None = None
    revision: Revision | None = None
    # Unix seconds; from then on the model is not for sale.
    sunset_at: int | None = None
    successor: str | None = None
    subscribers_only: bool = False


class UpstreamHealth(EventData):
    """Whether an upstream (provider and credential) takes requests."""

    TYPE: ClassVar[str] = "router.upstream_health_changed.v1"

    upstream_id: str
    version: int
    state: Literal["healthy", "cooling", "probing"]
    until_ms: int = 0
    reason: str = ""
    # Pauses in close succession so far; the next one is longer.
    pauses: int = 0
