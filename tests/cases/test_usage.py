"""Token counts of an Anthropic stream, which are running totals: case C033."""

from collections.abc import Callable

import pytest

from tests.cases.caller import Caller
from tests.cases.catalog import CACHE_READ, CACHE_WRITE, INPUT, OUTPUT
from tests.support.anthropic_wire import end, events, start, text_block
from tests.support.background import BackgroundProvider

TOTALS = {"input_tokens": 25, "cache_read_input_tokens": 100}


def told_twice() -> tuple[bytes, ...]:
    """The input at the start, and all again at the end."""
    return (start(25, cache_read_input_tokens=100), *text_block(0, "Hello!"), *end("end_turn", 15, **TOTALS))


def told_at_the_end() -> tuple[bytes, ...]:
    return (start(0, 0), *text_block(0, "Hello!"), *end("end_turn", 15, **TOTALS))


@pytest.mark.rule("CACHE-011", "CACHE-012", "CACHE-015", "CACHE-018", "CACHE-022", "STR-031", "STR-043")
@pytest.mark.parametrize("told", [told_twice, told_at_the_end])
def test_c033_running_totals_are_neither_added_nor_lost(
    payer: Caller, p1: BackgroundProvider, told: Callable[[], tuple[bytes, ...]]
) -> None:
    p1.answers(events(*told()))
    assert payer.joined("chat", "fx-ant").usage == {
        "prompt_tokens": 125,
        "completion_tokens": 15,
        "total_tokens": 140,
        "prompt_tokens_details": {"cached_tokens": 100},
    }
    spoken = payer.joined("messages", "fx-ant").usage
    assert spoken is not None
    assert {name: spoken[name] for name in TOTALS} == TOTALS
    assert spoken["output_tokens"] == 15
    responded = payer.joined("responses", "fx-ant").usage
    assert responded is not None
    assert (responded["input_tokens"], responded["output_tokens"], responded["total_tokens"]) == (125, 15, 140)
    assert responded["input_tokens_details"]["cached_tokens"] == 100
    for row in payer.log(3):
        assert row["prompt_tokens"] == 125
        assert row["cached_prompt_tokens"] == 100
        assert row["cache_write_prompt_tokens"] == 0
        assert row["completion_tokens"] == 15
        assert row["cost_micro_idr"] == 25 * INPUT + 100 * CACHE_READ + 15 * OUTPUT == 549_000


@pytest.mark.rule("CACHE-012", "CACHE-014", "CACHE-015", "CACHE-022")
def test_c033_written_to_the_cache_is_charged_at_its_price_in_every_format(
    payer: Caller, p1: BackgroundProvider
) -> None:
    written = {"cache_creation_input_tokens": 200, "cache_read_input_tokens": 100}
    p1.answers(events(start(25, **written), *text_block(0, "Hello!"), *end("end_turn", 15)))
    spoken = payer.joined("messages", "fx-ant").usage
    assert spoken is not None
    assert {name: spoken[name] for name in written} == written
    for format in ("chat", "responses"):
        counts = payer.joined(format, "fx-ant").usage
        assert counts is not None
        assert 325 in (counts.get("prompt_tokens"), counts.get("input_tokens"))
        assert "200" not in str(counts)
    for row in payer.log(3):
        assert row["cache_write_prompt_tokens"] == 200
        assert row["cost_micro_idr"] == 25 * INPUT + 100 * CACHE_READ + 200 * CACHE_WRITE + 15 * OUTPUT
