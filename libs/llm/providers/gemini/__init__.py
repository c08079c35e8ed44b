"""Google's Gemini API as a provider format."""

from libs.llm.providers.gemini.adapter import Gemini

__all__ = ["Gemini"]
