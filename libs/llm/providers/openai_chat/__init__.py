"""OpenAI's Chat completions as a provider format: OpenAI itself and the many servers that speak it."""

from libs.llm.providers.openai_chat.adapter import OpenAIChat

__all__ = ["OpenAIChat"]
