"""Anthropic's Messages as a provider format: Anthropic itself and the servers that speak it."""

from libs.llm.providers.anthropic.adapter import Anthropic

__all__ = ["Anthropic"]
