"""The model list as clients read it: which entries it has, and what stands in them."""

import json
from typing import Any

import pytest

from libs.events.router import Media, Price, PriceLine
from services.edge.catalog import Catalog
from tests.unit.edge.published import Published, card, catalog


def entries(listed: Catalog, modality: str | None = None) -> dict[str, dict[str, Any]]:
    return {entry["id"]: entry for entry in json.loads(listed.render(modality))["data"]}


@pytest.mark.rule("MODEL-011")
def test_a_fee_is_neither_listed_nor_a_model() -> None:
    fee = card("web_search", kind="fee", price=Price(version="f", input=0, output=0, unit=200))
    listed = catalog(card("m"), fee)
    assert set(entries(listed)) == {"m"}
    assert listed.get("web_search") is None
    assert listed.get("m") is not None


@pytest.mark.rule("MODEL-002", "MODEL-003", "MODEL-068", "MODEL-069", "MODEL-070", "MODEL-071", "MODEL-085")
def test_each_list_has_the_models_of_its_kind() -> None:
    usual = ("chat", "images", "videos", "audio_speech", "audio_transcription", "music")
    asked = {"embedding": "embeddings", "rerank": "rerank", "moderation": "moderations", "systemone": "systemone"}
    listed = catalog(*(card(kind, kind) for kind in (*usual, *asked.values())))
    assert set(entries(listed)) == set(usual)
    for modality, endpoint in asked.items():
        assert set(entries(listed, modality)) == {endpoint}


@pytest.mark.rule("MODEL-019", "MODEL-030", "MODEL-034", "MODEL-072", "MODEL-073")
def test_an_entry_of_a_modality_has_nothing_but_its_fields() -> None:
    line = PriceLine(endpoint="embeddings", billable="input", unit="token_1m", micro_idr=7)
    price = Price(version="p", input=7, output=0)
    limits = {"context_length": 512, "max_input_tokens": 500, "max_output_tokens": 9, "tool_call": True}
    model = card("e", "embeddings", price=price, price_lines=(line,), **limits)
    assert entries(catalog(model), "embedding") == {
        "e": {
            "id": "e",
            "object": "model",
            "owned_by": "v",
            "name": "e",
            "context_length": 512,
            "endpoints": ["embeddings"],
            "pricing_lines": [line.model_dump()],
            "modality": "embedding",
            "pricing": {"input": 7, "free": False, "currency": "IDR", "unit": "micro_idr_per_1m_tokens"},
            "sunset_at": None,
        }
    }


@pytest.mark.rule("MODEL-007", "MODEL-010")
def test_what_is_not_recorded_is_left_out() -> None:
    bare = entries(catalog(card("m", endpoints=())))["m"]
    assert not {"endpoints", "context_length", "max_output_tokens", "pricing_lines", "protocols"} & set(bare)


@pytest.mark.rule("MODEL-046", "MODEL-049")
def test_free_is_what_costs_nothing_and_a_unit_price_is_no_nothing() -> None:
    painter = card("painter", "images", price=Price(version="p", input=0, output=0, unit=500))
    gift = card("m:free", free=True, price=Price(version="p", input=1, output=2))
    listed = catalog(painter, gift, card("judge", "moderations"))
    pricing = {name: entry["pricing"] for name, entry in entries(listed).items()}
    assert (pricing["painter"]["input"], pricing["painter"]["output"], pricing["painter"]["free"]) == (0, 0, False)
    assert pricing["m:free"]["free"] is True
    assert entries(listed, "moderation")["judge"]["pricing"]["free"] is True


@pytest.mark.rule("MODEL-016")
def test_an_input_limit_as_large_as_the_context_is_no_limit() -> None:
    same = card("same", context_length=100, max_input_tokens=100)
    less = card("less", context_length=100, max_input_tokens=90)
    listed = entries(catalog(same, less))
    assert "max_input_tokens" not in listed["same"]
    assert listed["less"]["max_input_tokens"] == 90


@pytest.mark.rule("MODEL-027", "MODEL-028", "MODEL-029")
def test_levels_are_told_under_both_names_or_not_at_all() -> None:
    thinks = card("thinks", reasoning=True, reasoning_options=("low", "high"))
    listed = entries(catalog(thinks, card("mute", reasoning=True)))
    assert listed["thinks"]["reasoning_options"] == listed["thinks"]["supported_reasoning_levels"] == ["low", "high"]
    assert not {"reasoning_options", "supported_reasoning_levels"} & set(listed["mute"])


def test_the_list_follows_the_catalogue() -> None:
    published = Published(card("a"))
    listed = published.catalog()
    assert set(entries(listed)) == {"a"}
    published.put(card("b"))
    assert set(entries(listed)) == {"a", "b"}


@pytest.mark.rule(
    "MODEL-035", "MODEL-036", "MODEL-037", "MODEL-038", "MODEL-039", "MODEL-040", "MODEL-041", "MODEL-042", "MODEL-043"
)
def test_media_fields_are_listed_where_they_are_recorded() -> None:
    voice = Media(voices=("Nova", "nova"), formats=("mp3", "wav"), max_input_chars=4_000)
    song = Media(formats=("mp3",), max_prompt_chars=500, max_lyrics_chars=3_000, max_duration_secs=240)
    film = Media(video_durations=(5, 10), video_resolutions=("720p", "1080p"), max_reference_images=0)
    listed = entries(
        catalog(
            card("voice", "audio_speech", media=voice),
            card("song", "music", media=song),
            card("film", "videos", media=film),
            card("longer", "videos", media=Media(video_extensions=True)),
            card("plain", "videos"),
        )
    )
    usual = set(listed["plain"])

    def media(name: str) -> dict[str, Any]:
        return {field: value for field, value in listed[name].items() if field not in usual}

    assert media("voice") == {"voices": ["Nova", "nova"], "formats": ["mp3", "wav"], "max_input_chars": 4_000}
    assert media("song") == {
        "formats": ["mp3"],
        "max_prompt_chars": 500,
        "max_lyrics_chars": 3_000,
        "max_duration_secs": 240,
    }
    assert media("film") == {
        "video_durations": [5, 10],
        "video_resolutions": ["720p", "1080p"],
        "max_reference_images": 0,
    }
    assert media("longer") == {"video_extensions": True}


@pytest.mark.rule("MODEL-033", "MODEL-055")
def test_a_planned_retirement_is_told_and_changes_nothing_else() -> None:
    listed = entries(catalog(card("m"), card("old", sunset_at=1_900_000_000, successor="m")))
    assert (listed["m"]["sunset_at"], listed["old"]["sunset_at"]) == (None, 1_900_000_000)
    assert "successor" not in listed["old"]


@pytest.mark.rule("MODEL-020", "MODEL-021", "MODEL-022", "MODEL-023", "MODEL-026", "MODEL-031")
def test_what_a_model_reads_and_does_is_listed_as_it_is_recorded() -> None:
    reads = card("reads", input_modalities=("text", "pdf"), reasoning=True, tool_call=True)
    plain = card("plain", reasoning=False, tool_call=False)
    painter = card("painter", "images", output_modalities=("image",))
    listed = entries(catalog(reads, plain, painter))
    assert listed["reads"]["modalities"] == {"input": ["text", "pdf", "file"], "output": ["text"]}
    assert listed["plain"]["modalities"]["input"] == ["text", "file"]
    assert listed["painter"]["modalities"] == {"input": ["text"], "output": ["image"]}
    assert listed["painter"]["endpoints"] == ["images"]
    told = [(listed[name]["reasoning"], listed[name]["tool_call"]) for name in ("reads", "plain")]
    assert told == [(True, True), (False, False)]


@pytest.mark.rule("MODEL-032")
def test_price_lines_are_absent_where_there_are_none() -> None:
    line = PriceLine(endpoint="chat", billable="input", unit="token_1m", micro_idr=7)
    listed = entries(catalog(card("m", price_lines=(line,)), card("m:free", free=True)))
    assert listed["m"]["pricing_lines"] == [line.model_dump()]
    assert "pricing_lines" not in listed["m:free"]
