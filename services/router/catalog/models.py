"""A model as deploy/catalog.yaml has it: what it can do, what it costs now and later, until when it is for sale.

Used by document.py and cards.py beside it. Every number is a whole number.
"""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, StrictBool, model_validator

from services.router.catalog.fields import Count, Entry, ModelId, Moment, Rupiah, Slug, Text, Tokens, some
from services.router.catalog.prices import Priced, Unit, UnitPrice, units_of

ENDPOINTS = (
    "chat",
    "images",
    "videos",
    "audio_speech",
    "audio_transcription",
    "music",
    "embeddings",
    "rerank",
    "moderations",
    "systemone",
)
FREE_SUFFIX = ":free"

Endpoint = Literal[
    "chat",
    "images",
    "videos",
    "audio_speech",
    "audio_transcription",
    "music",
    "embeddings",
    "rerank",
    "moderations",
    "systemone",
]
Modality = Literal["text", "image", "pdf", "file", "audio", "video"]


class Limits(Priced):
    """What a model can take and do; what is not recorded is left out of the list."""

    context_length: Tokens | None = None
    max_input_tokens: Tokens | None = None
    max_output_tokens: Tokens | None = None
    reasoning: StrictBool | None = None
    reasoning_options: tuple[Text, ...] = ()
    reasoning_toggle: StrictBool = False
    tool_call: StrictBool | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.max_input_tokens and self.context_length and self.max_input_tokens >= self.context_length:
            raise ValueError("max_input_tokens must be below context_length; leave it out when it is the same")
        if (self.reasoning_options or self.reasoning_toggle) and not self.reasoning:
            raise ValueError("reasoning_options and reasoning_toggle need reasoning: true")
        return self


class Modalities(Entry):
    """What goes in and what comes out."""

    input: Annotated[tuple[Modality, ...], AfterValidator(some)] = ("text",)
    output: Annotated[tuple[Modality, ...], AfterValidator(some)] = ("text",)


class Serving(Entry):
    """A provider that serves the model. Lower ``order`` is tried first; equal ones share by ``weight``."""

    provider: Slug
    upstream_model: Text | None = None
    order: Count = 0
    weight: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] = 1


Texts = Annotated[tuple[Text, ...], AfterValidator(some)]
Seconds = Annotated[int, Field(strict=True, ge=1, le=86_400)]


class Media(Entry):
    """What a request to a model for other things than chats may ask (contract: Models and pricing, Response)."""

    voices: Texts | None = None
    formats: Texts | None = None
    max_input_chars: Tokens | None = None
    max_prompt_chars: Tokens | None = None
    max_lyrics_chars: Tokens | None = None
    max_duration_secs: Seconds | None = None
    video_durations: Annotated[tuple[Seconds, ...], AfterValidator(some)] | None = None
    video_resolutions: Texts | None = None
    max_reference_images: Count | None = None
    video_extensions: StrictBool = False

    def check(self, endpoints: tuple[str, ...]) -> None:
        """Raise ValueError for a field that says nothing about a model of these endpoints."""
        for name in self.model_fields_set:
            if not set(_MEDIA_OF[name]) & set(endpoints):
                raise ValueError(f"media: {name} is for models with {' or '.join(_MEDIA_OF[name])}")


_MEDIA_OF = {
    "voices": ("audio_speech",),
    "formats": ("audio_speech", "music"),
    "max_input_chars": ("audio_speech",),
    "max_prompt_chars": ("music",),
    "max_lyrics_chars": ("music",),
    "max_duration_secs": ("music",),
    "video_durations": ("videos",),
    "video_resolutions": ("videos",),
    "max_reference_images": ("videos",),
    "video_extensions": ("videos",),
}


class Retirement(Entry):
    """Until when a model is for sale, what comes after it, and whether requests for it go there by themselves."""

    at: Moment
    successor: ModelId | None = None
    forward: StrictBool = False

    @model_validator(mode="after")
    def _forwards_somewhere(self) -> Self:
        if self.forward and self.successor is None:
            raise ValueError("forward needs a successor")
        return self


class Note(Entry):
    """A note in both languages; one may be missing."""

    id: Text | None = None
    en: Text | None = None


class Revision(Entry):
    """The vendor's newer state of a model under the same id."""

    name: Text
    at: Moment
    note: Note | None = None


class MarketPrices(Entry):
    """What the model costs elsewhere, in Rupiah per million tokens."""

    input: Rupiah | None = None
    output: Rupiah | None = None


class PriceChange(Priced):
    """Prices that apply from a moment on."""

    at: Moment
    unit_price: UnitPrice | None = None


class ModelEntry(Limits):
    """A model for sale. Its own id is the upstream name unless ``upstream_model`` says otherwise."""

    id: ModelId
    vendor: Slug
    name: Text | None = None
    free: StrictBool = False
    endpoints: Annotated[tuple[Endpoint, ...], AfterValidator(some)] = ("chat",)
    modalities: Modalities = Modalities()
    unit_price: UnitPrice | None = None
    price_changes: tuple[PriceChange, ...] = ()
    market_rupiah_per_1m_tokens: MarketPrices | None = None
    subscribers_only: StrictBool = False
    free_rpm: Count | None = None
    free_daily: Count | None = None
    free_token_budget: Tokens | None = None
    media: Media = Media()
    revision: Revision | None = None
    retires: Retirement | None = None
    served_by: Annotated[tuple[Serving, ...], AfterValidator(some)]

    def prices_at(self, moment_s: int) -> "ModelEntry | PriceChange":
        """The prices in force at that time."""
        begun = [change for change in self.price_changes if change.at <= moment_s]
        return begun[-1] if begun else self

    def next_change(self, moment_s: int) -> PriceChange | None:
        """The first change of its price after that time."""
        return next((change for change in self.price_changes if change.at > moment_s), None)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        self.media.check(self.endpoints)
        moments = [change.at for change in self.price_changes]
        if moments != sorted(set(moments)):
            raise ValueError("price_changes must be in the order of their moments, each at another")
        if self.retires is not None and self.retires.successor == self.id:
            raise ValueError("a model cannot be its own successor")
        return self

    @model_validator(mode="after")
    def _free_or_priced(self) -> Self:
        if self.id.endswith(FREE_SUFFIX) != self.free:
            raise ValueError(
                f"a free model's id ends in {FREE_SUFFIX}"
                if self.free
                else f"an id that ends in {FREE_SUFFIX} costs nothing: it needs free: true"
            )
        if self.free:
            if self.has_prices or self.unit_price is not None or self.price_changes:
                raise ValueError("a free model has no price of its own: it shows that of its paid version")
            return self
        if (self.free_rpm, self.free_daily, self.free_token_budget) != (None, None, None):
            raise ValueError("free_rpm, free_daily and free_token_budget are for free models")
        priced_ever: tuple[ModelEntry | PriceChange, ...] = (self, *self.price_changes)
        for priced in priced_ever:
            _check_unit_price(priced.unit_price, self.endpoints)
            _check_token_prices(priced, self.endpoints)
        return self


def _check_unit_price(given: UnitPrice | None, endpoints: tuple[str, ...]) -> None:
    units: set[Unit] = units_of(endpoints)
    if len(units) > 1:
        raise ValueError(f"these endpoints are billed by {' and '.join(sorted(units))}: list a model for each")
    wanted = next(iter(units), None)
    if (given.per if given is not None else None) == wanted:
        return
    if wanted is None:
        raise ValueError("unit_price is for endpoints that are not billed by tokens")
    raise ValueError(f"a model for {', '.join(endpoints)} needs a unit_price per {wanted}")


def _check_token_prices(priced: Priced, endpoints: tuple[str, ...]) -> None:
    if all(units_of((endpoint,)) for endpoint in endpoints):
        if priced.has_prices:
            raise ValueError("a model that is not billed by tokens has a unit_price alone")
    elif endpoints == ("moderations",):
        # Moderation costs nothing where no price is set (contract: Moderations, Billing).
        return
    elif not priced.has_prices:
        raise ValueError("a paid model needs a price: rupiah_, micro_idr_ or usd_per_1m_tokens")
    elif priced.costs_nothing:
        raise ValueError("a paid model's input or output price must be above 0")
