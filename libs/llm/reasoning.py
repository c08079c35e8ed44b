"""What a model does with a client's wish about reasoning: levels gated, budgets and levels translated.

Called by the edge once the model is known; read by provider adapters (contract: Reasoning). Pure.
"""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from libs.llm.canonical import Effort, ReasoningWish

SMALLEST_BUDGET = 1_024
"""Fewest tokens a thinking budget may have; a request with no larger output limit goes without thinking."""

_ORDER = {effort: place for place, effort in enumerate(Effort)}
# Thinking budgets by level, in tokens; the same steps read backwards turn a budget into a level.
_BUDGETS = {
    Effort.LOW: 4_096,
    Effort.MEDIUM: 10_240,
    Effort.HIGH: 24_576,
    Effort.XHIGH: 32_768,
    Effort.MAX: 65_536,
}
# Most of the output limit that thinking may take, in percent: the rest is for the answer.
_SHARES = {Effort.LOW: 20, Effort.MEDIUM: 40, Effort.HIGH: 60, Effort.XHIGH: 75, Effort.MAX: 85}
FREE_SUFFIX = ":free"

_LEVELS = {effort.value: effort for effort in Effort}


class ReasoningControl(Struct, frozen=True, gc=False, kw_only=True):
    """What a provider is told. ``as_is``: nothing, its default applies.

    ``on`` comes with a gated ``effort``, or a ``budget`` the client named itself (tokens), or both.
    ``off_softly`` goes with ``off``: only providers of Anthropic's format are told.
    """

    state: Literal["as_is", "off", "on"] = "as_is"
    effort: Effort | None = None
    budget: int | None = None
    off_softly: bool = False


AS_IS = ReasoningControl()


def gate(wish: ReasoningWish, reasons: bool, options: Sequence[str]) -> ReasoningControl:
    """The wish as a model can have it. ``options`` are the levels it lists, empty when it lists none."""
    if not reasons:
        return AS_IS
    effort = wish.effort
    if effort is Effort.NONE or (wish.enabled is False and effort is None):
        return ReasoningControl(state="off", off_softly=wish.off_softly)
    if effort is None and wish.budget is None:
        if not wish.enabled:
            return AS_IS
        effort = Effort.MEDIUM
    if effort is None:
        assert wish.budget is not None
        return ReasoningControl(state="on", effort=gated(effort_of(wish.budget), options), budget=wish.budget)
    return ReasoningControl(state="on", effort=gated(effort, options), budget=wish.budget)


def gated(effort: Effort, options: Sequence[str]) -> Effort:
    """The highest listed level at or below ``effort``; ``effort`` itself when none is. ``minimal`` acts as ``low``."""
    if effort is Effort.MINIMAL:
        effort = Effort.LOW
    below = [level for level in Effort if level in options and _ORDER[level] <= _ORDER[effort]]
    # "none" is no level of thinking: asking for some must not end in none.
    thinking = [level for level in below if level not in (Effort.NONE, Effort.MINIMAL)]
    return thinking[-1] if thinking else effort


def effort_of(budget: int) -> Effort:
    """The level whose budget is the nearest at or above ``budget`` tokens."""
    return next((effort for effort, size in _BUDGETS.items() if budget <= size), Effort.MAX)


def budget_of(effort: Effort, max_tokens: int) -> int | None:
    """The thinking budget of a level within an output limit; None when the limit leaves no room for any.

    It leaves a share of the limit to the answer, a smaller one at higher levels, but never falls below 1,024.
    """
    level = effort if effort in _BUDGETS else Effort.LOW
    return fitting_budget(min(_BUDGETS[level], max_tokens * _SHARES[level] // 100), max_tokens)


def fitting_budget(budget: int, max_tokens: int) -> int | None:
    """``budget`` put within 1,024 and the output limit less one; None when the limit is 1,024 or less."""
    if max_tokens <= SMALLEST_BUDGET:
        return None
    return max(SMALLEST_BUDGET, min(budget, max_tokens - 1))


def split_level(model: str) -> tuple[str, Effort | None]:
    """``x:high``, ``x:free:high`` and ``x:high:free``; a last part that names no level belongs to the id."""
    free = FREE_SUFFIX if model.endswith(FREE_SUFFIX) else ""
    plain, _, last = model.removesuffix(free).rpartition(":")
    if not plain or last not in _LEVELS:
        return model, None
    return plain + free, _LEVELS[last]
