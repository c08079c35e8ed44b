"""What may stand in deploy/catalog.yaml: its entries, their fields and the rules inside one entry.

Called by catalog.load, which turns the errors into ``file:line: reason``. Every number is a whole number.
"""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, model_validator

from services.router.catalog.fields import (
    Count,
    Entry,
    EnvName,
    Milliseconds,
    ModelId,
    Slug,
    Text,
    Tokens,
    env_syntax,
    one_or_more,
    some,
)
from services.router.catalog.prices import Amount, Priced, Unit, UnitPrice, units_of

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


class Timeouts(Entry):
    """How long the edge waits for a provider, in milliseconds.

    ``content_ms`` is for a provider that sends comments, pings or spaces all the while: the longest it may take to
    the first content, from one to the next, and for a whole JSON answer.
    """

    connect_ms: Milliseconds = 5_000
    first_byte_ms: Milliseconds = 60_000
    idle_ms: Milliseconds = 60_000
    content_ms: Milliseconds = 600_000


class Abilities(Entry):
    """What a provider can carry beside plain chat; what is not said is as usual for its format."""

    tools: StrictBool | None = None
    remote_images: StrictBool | None = None
    json_format: StrictBool | None = None
    cache_marks: StrictBool | None = None
    adaptive_thinking: StrictBool | None = None

    def settled(self, provider_format: str) -> "Abilities":
        """The same with everything said."""
        said = self.model_dump(exclude_none=True)
        return Abilities(**(_USUAL.get(provider_format, {}) | said))


_USUAL = {
    "openai_chat": {"tools": True, "remote_images": True, "json_format": False, "cache_marks": False},
    "openai_responses": {"tools": True, "remote_images": True, "json_format": False, "cache_marks": False},
    "anthropic": {"tools": True, "remote_images": True, "json_format": False, "cache_marks": True},
    "gemini": {"tools": True, "remote_images": False, "json_format": False, "cache_marks": False},
    "simulated": {"tools": True, "remote_images": True, "json_format": False, "cache_marks": False},
}


class ProviderEntry(Entry):
    """A place that answers requests. With ``key_env`` it is in use only while one of its keys is present."""

    id: Slug
    format: Literal["openai_chat", "openai_responses", "anthropic", "gemini", "simulated"]
    base_url: Annotated[str, AfterValidator(env_syntax)] | None = None
    key_env: Annotated[tuple[EnvName, ...], BeforeValidator(one_or_more)] = ()
    discover: StrictBool = False
    abilities: Abilities = Abilities()
    timeouts: Timeouts = Timeouts()

    @model_validator(mode="after")
    def _fits_its_format(self) -> Self:
        if self.format != "simulated" and self.base_url is None:
            raise ValueError(f"a provider of format {self.format} needs a base_url")
        if self.format == "simulated" and (self.base_url or self.key_env or self.discover):
            raise ValueError("the simulated provider has no base_url, key_env or discover")
        if len(set(self.key_env)) != len(self.key_env):
            raise ValueError("key_env names the same variable twice")
        return self


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


class ModelEntry(Limits):
    """A model for sale. Its own id is the upstream name unless ``upstream_model`` says otherwise."""

    id: ModelId
    vendor: Slug
    name: Text | None = None
    free: StrictBool = False
    endpoints: Annotated[tuple[Endpoint, ...], AfterValidator(some)] = ("chat",)
    modalities: Modalities = Modalities()
    unit_price: UnitPrice | None = None
    subscribers_only: StrictBool = False
    free_rpm: Count | None = None
    free_daily: Count | None = None
    free_token_budget: Tokens | None = None
    served_by: Annotated[tuple[Serving, ...], AfterValidator(some)]

    @model_validator(mode="after")
    def _free_or_priced(self) -> Self:
        if self.id.endswith(FREE_SUFFIX) != self.free:
            raise ValueError(
                f"a free model's id ends in {FREE_SUFFIX}"
                if self.free
                else f"an id that ends in {FREE_SUFFIX} costs nothing: it needs free: true"
            )
        if self.free:
            if self.prices() is not None or self.unit_price is not None:
                raise ValueError("a free model has no price of its own: it shows that of its paid version")
            return self
        if (self.free_rpm, self.free_daily, self.free_token_budget) != (None, None, None):
            raise ValueError("free_rpm, free_daily and free_token_budget are for free models")
        self._check_unit_price(units_of(self.endpoints))
        self._check_token_prices()
        return self

    def _check_unit_price(self, units: set[Unit]) -> None:
        if len(units) > 1:
            raise ValueError(f"these endpoints are billed by {' and '.join(sorted(units))}: list a model for each")
        given = self.unit_price.per if self.unit_price is not None else None
        wanted = next(iter(units), None)
        if given == wanted:
            return
        if wanted is None:
            raise ValueError("unit_price is for endpoints that are not billed by tokens")
        raise ValueError(f"a model for {', '.join(self.endpoints)} needs a unit_price per {wanted}")

    def _check_token_prices(self) -> None:
        prices = self.prices()
        if all(units_of((endpoint,)) for endpoint in self.endpoints):
            if prices is not None:
                raise ValueError("a model that is not billed by tokens has a unit_price alone")
        elif self.endpoints == ("moderations",):
            # Moderation costs nothing where no price is set (contract: Moderations, Billing).
            return
        elif prices is None:
            raise ValueError("a paid model needs a price: rupiah_per_1m_tokens or micro_idr_per_1m_tokens")
        elif not (prices.input or prices.output):
            raise ValueError("a paid model's input or output price must be above 0")


class FeeEntry(Amount):
    """What one use of a tool of ours costs: a search or page by the call, paid reading of documents by the page."""

    id: Literal["web_search", "page_fetch", "x_search", "ocr"]

    @property
    def per(self) -> Unit:
        """What the fee is for one of."""
        return "page" if self.id == "ocr" else "call"


class DiscoveredDefaults(Limits):
    """Price and limits of models that a provider lists and the file does not."""

    @model_validator(mode="after")
    def _priced(self) -> Self:
        prices = self.prices()
        if prices is None or not (prices.input or prices.output):
            raise ValueError("discovered models need a price above 0, so that an unknown one is never given away")
        return self
