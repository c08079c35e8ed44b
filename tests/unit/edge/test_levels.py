"""Reasoning levels in model ids."""

from types import SimpleNamespace
from typing import Any

import pytest
from kenari.router.v1 import router_pb2

from libs.llm.canonical import ChatRequest, Effort, ReasoningWish
from services.edge.errors import RefusedError
from services.edge.levels import control, named


def request(model: str, **wish: Any) -> ChatRequest:
    return ChatRequest(
        dialect="openai_chat",
        model=model,
        messages=[],
        input_tokens=1,
        fields={},
        reasoning=ReasoningWish(**wish),
    )


def catalog(*ids: str) -> Any:
    return SimpleNamespace(get=lambda name: name if name in ids else None)


@pytest.mark.rule("RSN-029", "RSN-043", "RSN-045")
@pytest.mark.parametrize(
    ("sent", "plain", "level"),
    [
        ("m", "m", None),
        ("m:high", "m", Effort.HIGH),
        ("m:none", "m", Effort.NONE),
        ("m:free", "m:free", None),
        ("m:free:max", "m:free", Effort.MAX),
        ("m:max:free", "m:free", Effort.MAX),
        ("m:turbo", "m:turbo", None),
        ("a:b:low", "a:b", Effort.LOW),
        (":high", ":high", None),
        ("known:high", "known:high", None),
    ],
)
def test_a_last_part_that_names_a_level_is_taken_off_the_id(sent: str, plain: str, level: Effort | None) -> None:
    found, named_level = named(request(sent), catalog("known:high"))
    assert (found.model, named_level) == (plain, level)


@pytest.mark.rule("RSN-030", "RSN-031")
@pytest.mark.parametrize(
    "wish", [{"effort": Effort.LOW}, {"enabled": False}, {"enabled": False, "off_softly": True}, {"budget": 4_000}]
)
def test_the_level_of_the_id_stands_for_all_the_body_says(wish: dict[str, Any]) -> None:
    found, _ = named(request("m:high", exclude=True, **wish), catalog())
    assert found.reasoning == ReasoningWish(effort=Effort.HIGH, exclude=True)


@pytest.mark.rule("RSN-037", "RSN-038")
@pytest.mark.parametrize("level", [Effort.NONE, Effort.MINIMAL, Effort.XHIGH])
def test_a_level_the_model_does_not_have_is_refused_with_those_it_has(level: Effort) -> None:
    model = router_pb2.Model(id="m", reasoning=True, reasoning_options=["low", "high"])
    with pytest.raises(RefusedError) as refused:
        control(request("m", effort=level), level, model)
    assert (refused.value.error.status, refused.value.error.code) == (400, "bad_request")
    assert "low, high" in refused.value.error.message


@pytest.mark.rule("RSN-037")
def test_a_model_without_levels_refuses_every_one() -> None:
    with pytest.raises(RefusedError):
        control(request("m", effort=Effort.LOW), Effort.LOW, router_pb2.Model(id="m"))


@pytest.mark.rule("RSN-038")
def test_none_turns_reasoning_off_where_it_is_listed() -> None:
    model = router_pb2.Model(id="m", reasoning=True, reasoning_options=["none", "low"])
    assert control(request("m", effort=Effort.NONE), Effort.NONE, model).state == "off"
