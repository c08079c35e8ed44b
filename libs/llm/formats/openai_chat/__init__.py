"""OpenAI's Chat completions as a client format (contract: Chat completions, Streaming)."""

from libs.llm.formats.openai_chat.answer import ChunkWriter, render_answer
from libs.llm.formats.openai_chat.errors import render_error
from libs.llm.formats.openai_chat.request import parse

__all__ = ["ChunkWriter", "parse", "render_answer", "render_error"]
