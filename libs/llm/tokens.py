"""Estimates of tokens where nobody has counted them: about four characters each (rule R26).

Called while a request is read (its hold), and for answers whose provider told no usage or that broke off.
"""

from libs.llm.canonical import Answer, ChatRequest, Usage

CHARACTERS_PER_TOKEN = 4
TOKENS_PER_IMAGE = 1_500


def tokens_of(characters: int) -> int:
    """Characters to tokens, rounded up; 0 for 0."""
    return -(-characters // CHARACTERS_PER_TOKEN)


def input_tokens(characters: int, images: int = 0) -> int:
    """The estimate of a prompt: all its text (tools and earlier calls included) and its images; at least 1."""
    return max(1, tokens_of(characters)) + images * TOKENS_PER_IMAGE


def estimated_usage(request: ChatRequest, answer: Answer) -> Usage:
    """The usage of a whole answer whose provider reported none."""
    characters = len(answer.text()) + len(answer.reasoning())
    characters += sum(len(call.name) + len(call.arguments) for call in answer.tool_calls())
    return Usage(prompt=request.input_tokens, completion=tokens_of(characters))
