"""All provider formats under the names the router uses for them, for the edge's attempt loop."""

from libs.llm.providers.anthropic import Anthropic
from libs.llm.providers.base import ProviderAdapter
from libs.llm.providers.gemini import Gemini
from libs.llm.providers.openai_chat import OpenAIChat
from libs.llm.providers.openai_responses import OpenAIResponses
from libs.llm.providers.simulated import Simulated
from libs.llm.transport import Transport


class Providers:
    """One adapter per format, shared by all requests of a process."""

    def __init__(self, transport: Transport) -> None:
        self._adapters: dict[str, ProviderAdapter] = {
            "openai_chat": OpenAIChat(transport),
            "openai_responses": OpenAIResponses(transport),
            "anthropic": Anthropic(transport),
            "gemini": Gemini(transport),
            "simulated": Simulated(),
        }

    def get(self, provider_format: str) -> ProviderAdapter:
        """The adapter of ``ProviderFormat`` in lower case without its prefix; KeyError for an unknown one."""
        return self._adapters[provider_format]
