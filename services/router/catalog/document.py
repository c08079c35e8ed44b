"""What may stand in deploy/catalog.yaml beside its models: providers, fees, the price of discovered models.

Called by catalog.load, which turns the errors into ``file:line: reason``. Every number is a whole number.
"""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, StrictBool, model_validator

from services.router.catalog.fields import Entry, EnvName, Milliseconds, Slug, env_syntax, one_or_more
from services.router.catalog.models import Limits
from services.router.catalog.prices import Amount, Unit


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
        if not self.has_prices or self.costs_nothing:
            raise ValueError("discovered models need a price above 0, so that an unknown one is never given away")
        return self
