"""Reasoning on its way to an Anthropic-format provider: budgets that fit, off, and the client's own words kept."""

from typing import Any

import pytest

from libs.llm.canonical import Effort, ReasoningPart, TextPart, ToolCall, ToolChoice, ToolResultPart
from libs.llm.reasoning import AS_IS, ReasoningControl
from tests.unit.llm.anthropic_provider.bodies import gated, message_request, sent
from tests.unit.llm.hub import TOOL, asked, assistant, tool, user

HIGH = ReasoningControl(state="on", effort=Effort.HIGH)
OFF = ReasoningControl(state="off")
CALLED = assistant(ToolCall("c1", "look", "{}"))
GIVEN = tool(ToolResultPart("c1", [TextPart("x")]))
PROVED = assistant(ReasoningPart("why", "sig"), ToolCall("c1", "look", "{}"))


@pytest.mark.rule("RSN-010", "RSN-019", "RSN-022", "RSN-024")
@pytest.mark.parametrize(
    ("control", "limit", "told"),
    [
        (AS_IS, 8_000, None),
        (OFF, 8_000, {"type": "disabled"}),
        (HIGH, 64_000, {"type": "enabled", "budget_tokens": 24_576}),
        (HIGH, 8_000, {"type": "enabled", "budget_tokens": 4_800}),
        (HIGH, 1_025, {"type": "enabled", "budget_tokens": 1_024}),
        (
            ReasoningControl(state="on", effort=Effort.LOW, budget=3_000),
            8_000,
            {"type": "enabled", "budget_tokens": 3_000},
        ),
        (
            ReasoningControl(state="on", effort=Effort.LOW, budget=10),
            8_000,
            {"type": "enabled", "budget_tokens": 1_024},
        ),
        (HIGH, 1_024, None),
        (OFF, 1_024, None),
    ],
)
def test_a_level_becomes_a_budget_that_fits(control: ReasoningControl, limit: int, told: Any) -> None:
    assert sent(asked(), limit, reasoning=control).get("thinking") == told


@pytest.mark.rule("RSN-010")
def test_a_provider_of_adaptive_thinking_is_told_the_level() -> None:
    body = sent(asked(temperature=0.2), 8_000, reasoning=HIGH, adaptive_thinking=True)
    assert (body["thinking"], body["output_config"]) == ({"type": "adaptive"}, {"effort": "high"})
    assert "temperature" not in body


@pytest.mark.rule("RSN-011")
def test_a_clients_own_budget_becomes_a_level_where_only_levels_are_taken() -> None:
    thinking = {"type": "enabled", "budget_tokens": 4_000}
    low = ReasoningControl(state="on", effort=Effort.LOW, budget=4_000)
    body = sent(message_request(thinking=thinking), 8_000, reasoning=low, adaptive_thinking=True)
    assert (body["thinking"], body["output_config"]) == ({"type": "adaptive"}, {"effort": "low"})


def test_thinking_samples_in_its_own_way() -> None:
    request = asked(temperature=0.2, top_k=5)
    assert not {"temperature", "top_k"} & sent(request, reasoning=HIGH).keys()
    assert {"temperature", "top_k"} <= sent(request, 1_024, reasoning=HIGH).keys()


@pytest.mark.parametrize(
    ("turns", "members", "thinks"),
    [
        ([], {}, True),
        # A forced call is what the client's program needs; thinking is only how it gets there.
        ([], {"tools": [TOOL], "tool_choice": ToolChoice("required")}, False),
        ([], {"tools": [TOOL], "tool_choice": ToolChoice("function", "look")}, False),
        ([], {"tools": [TOOL], "tool_choice": ToolChoice("auto")}, True),
        ([user("Hi"), assistant("So")], {}, False),
        ([user("Go"), CALLED, GIVEN], {}, False),
        ([user("Go"), CALLED, GIVEN, user("and?")], {}, False),
        ([user("Go"), PROVED, GIVEN], {}, True),
        ([user("Go"), PROVED, GIVEN, CALLED, GIVEN], {}, True),
        ([user("Go"), CALLED, GIVEN, assistant("done"), user("next")], {}, True),
    ],
)
def test_thinking_gives_way_where_anthropic_refuses_it(turns: list[Any], members: Any, thinks: bool) -> None:
    body = sent(asked(*turns, **members), reasoning=HIGH)
    assert ("thinking" in body) is thinks


ENABLED = {"type": "enabled", "budget_tokens": 4_096, "display": "omitted"}
ADAPTIVE = {"type": "adaptive", "display": "omitted"}


@pytest.mark.rule("RSN-011", "RSN-012", "RSN-016")
@pytest.mark.parametrize(
    "own",
    [
        {"thinking": ENABLED},
        {"thinking": ENABLED, "output_config": {"effort": "high", "task": 1}},
        {"thinking": ADAPTIVE},
        {"thinking": ADAPTIVE, "output_config": {"effort": "high"}},
        {"output_config": {"effort": "low"}},
        {"thinking": {"type": "disabled"}, "temperature": 0.3},
        {"temperature": 0.3},
    ],
)
def test_a_messages_clients_own_words_are_kept(own: dict[str, Any]) -> None:
    request = message_request(**own)
    body = sent(request, reasoning=gated(request))
    assert {name: body.get(name) for name in own} == own
    assert ("thinking" in body, "output_config" in body) == ("thinking" in own, "output_config" in own)


@pytest.mark.rule("RSN-019")
@pytest.mark.parametrize("own", [{"thinking": ENABLED}, {"thinking": ADAPTIVE}, {"thinking": {"type": "disabled"}}])
def test_a_small_limit_in_force_ends_all_thinking(own: dict[str, Any]) -> None:
    request = message_request(**own, output_config={"effort": "high"})
    body = sent(request, 1_024, reasoning=gated(request))
    assert not {"thinking", "output_config"} & body.keys()


def test_a_budget_fits_the_limit_in_force() -> None:
    request = message_request(thinking=ENABLED)
    assert sent(request, 2_000, reasoning=gated(request))["thinking"] == ENABLED | {"budget_tokens": 1_999}


@pytest.mark.rule("RSN-009")
def test_a_model_that_does_not_reason_is_told_nothing() -> None:
    request = message_request(thinking=ENABLED, output_config={"effort": "high"})
    assert not {"thinking", "output_config"} & sent(request, reasoning=AS_IS).keys()


@pytest.mark.rule("RSN-030", "RSN-031")
@pytest.mark.parametrize(
    ("own", "thinking", "config"),
    [
        ({"thinking": ENABLED}, ENABLED | {"budget_tokens": 4_800}, None),
        ({"thinking": ADAPTIVE, "output_config": {"effort": "low"}}, ADAPTIVE, {"effort": "high"}),
        ({"thinking": ADAPTIVE}, ADAPTIVE, {"effort": "high"}),
        ({"output_config": {"effort": "low"}}, None, {"effort": "high"}),
        ({"thinking": {"type": "disabled"}}, {"type": "enabled", "budget_tokens": 4_800}, None),
        ({}, {"type": "enabled", "budget_tokens": 4_800}, None),
    ],
)
def test_another_level_is_written_where_the_client_wrote_its_own(own: Any, thinking: Any, config: Any) -> None:
    body = sent(message_request(**own), reasoning=HIGH)
    assert (body.get("thinking"), body.get("output_config")) == (thinking, config)


@pytest.mark.rule("RSN-031", "RSN-038")
def test_off_stands_for_all_the_client_said() -> None:
    request = message_request(thinking=ADAPTIVE, output_config={"effort": "high"})
    body = sent(request, reasoning=OFF)
    assert body["thinking"] == {"type": "disabled"} and "output_config" not in body
