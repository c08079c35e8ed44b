"""OpenAI's Responses as a provider format."""

from libs.llm.providers.openai_responses.adapter import OpenAIResponses

__all__ = ["OpenAIResponses"]
