"""From file and lists to what is for sale: cards, price versions, who serves what."""

from pathlib import Path

import pytest

from libs.events.router import ModelPublished
from services.router.catalog.cards import Catalog, Listed, Listings, assemble
from services.router.catalog.discover import is_chat_model, usable
from services.router.catalog.load import load
from services.router.catalog.prices import MicroPrices, price_of

NOW_S = 1_800_000_000
SHIPPED = Path(__file__).resolve().parents[3] / "deploy" / "catalog.yaml"


def shipped(listings: Listings, key: str = "sk-1") -> Catalog:
    return assemble(load(SHIPPED, {"OPENAI_API_KEY": key}), listings, NOW_S)


def card(catalog: Catalog, name: str) -> ModelPublished:
    return catalog.offers[name].card


def test_without_a_key_only_simulated_models_are_for_sale() -> None:
    assert sorted(shipped({}, key="").offers) == ["sim-1", "sim-1:free"]


def test_before_a_provider_has_answered_nothing_of_it_is_for_sale() -> None:
    assert sorted(shipped({}).offers) == ["sim-1", "sim-1:free"]


def test_listed_models_have_their_own_price_and_unknown_ones_the_default() -> None:
    catalog = shipped({"openai": (Listed("gpt-4o", "openai"), Listed("llama-3.3-70b", "meta"))})
    assert sorted(catalog.offers) == ["gpt-4o", "llama-3.3-70b", "sim-1", "sim-1:free"]
    assert card(catalog, "gpt-4o").price.input == 41_250_000_000
    assert card(catalog, "gpt-4o").context_length == 128_000
    unknown = card(catalog, "llama-3.3-70b")
    assert (unknown.price.input, unknown.price.output) == (50_000_000_000, 250_000_000_000)
    assert (unknown.vendor, unknown.name, unknown.context_length) == ("meta", "llama-3.3-70b", None)
    assert catalog.offers["llama-3.3-70b"].servers[0].upstream_model == "llama-3.3-70b"


def test_an_id_of_the_file_is_not_taken_over_by_another_providers_list() -> None:
    catalog = shipped({"openai": (Listed("sim-1", "mallory"),)})
    assert [server.upstream_id for server in catalog.offers["sim-1"].servers] == ["simulated/default"]


def test_a_free_model_shows_the_price_of_its_paid_version() -> None:
    catalog = shipped({})
    assert card(catalog, "sim-1:free").free
    assert card(catalog, "sim-1:free").price == card(catalog, "sim-1").price
    assert card(catalog, "sim-1:free").price_lines == ()
    assert catalog.offers["sim-1:free"].servers[0].upstream_model == "sim-1"


def test_every_chat_model_takes_files() -> None:
    catalog = shipped({"openai": (Listed("x", "x"), Listed("gpt-5", "openai"))})
    assert all("file" in offer.card.input_modalities for offer in catalog.offers.values())


def test_there_is_one_price_line_for_each_price() -> None:
    lines = card(shipped({}), "sim-1").price_lines
    assert [(line.endpoint, line.billable, line.unit, line.variant, line.micro_idr) for line in lines] == [
        ("chat", "input", "token_1m", None, 4_200_000_000),
        ("chat", "output", "token_1m", None, 24_000_000_000),
        ("chat", "cache_read", "token_1m", None, 840_000_000),
    ]


def test_a_price_version_is_named_by_its_figures_alone() -> None:
    one = price_of(MicroPrices(input=1, output=2))
    assert one.version == price_of(MicroPrices(input=1, output=2)).version
    others = [
        price_of(MicroPrices(input=2, output=1)),
        price_of(MicroPrices(input=1, output=2, cache_read=0)),
        price_of(MicroPrices(input=1, output=2, cache_write=0)),
        price_of(None),
        price_of(None, "image", 5),
        price_of(None, "song", 5),
        price_of(None, "song", 6),
    ]
    assert len({one.version, *(other.version for other in others)}) == 8
    # Rows of the ledger refer to it for ever: the way it is made must not change.
    assert one.version == "price_aa0fe8c1721a427a1050"


MEDIA = """
providers: [{id: sim, format: simulated}]
fees:
  - {id: web_search, rupiah: 200}
  - {id: x_search, micro_idr: 0}
  - {id: ocr, micro_idr: 150000001}
models:
  - {id: painter, vendor: v, endpoints: [images], unit_price: {per: image, rupiah: 500}, served_by: [{provider: sim}]}
  - {id: painter:free, vendor: v, free: true, endpoints: [images], served_by: [{provider: sim}]}
  - {id: film, vendor: v, endpoints: [videos], unit_price: {per: second, micro_idr: 7}, served_by: [{provider: sim}]}
  - {id: ear, vendor: v, endpoints: [audio_transcription], unit_price: {per: second, rupiah: 3},
     served_by: [{provider: sim}]}
  - {id: voice, vendor: v, endpoints: [audio_speech], unit_price: {per: 1k_chars, rupiah: 4},
     served_by: [{provider: sim}]}
  - {id: song, vendor: v, endpoints: [music], unit_price: {per: song, rupiah: 5}, served_by: [{provider: sim}]}
  - {id: both, vendor: v, endpoints: [chat, images], rupiah_per_1m_tokens: {input: 1, output: 2},
     unit_price: {per: image, rupiah: 9}, served_by: [{provider: sim}]}
  - {id: judge, vendor: v, endpoints: [moderations], served_by: [{provider: sim}]}
"""


@pytest.fixture
def media(tmp_path: Path) -> Catalog:
    (tmp_path / "catalog.yaml").write_text(MEDIA)
    return assemble(load(tmp_path / "catalog.yaml", {}), {}, NOW_S)


@pytest.mark.rule("MODEL-049", "MODEL-051", "MODEL-052", "MODEL-053")
def test_what_is_not_billed_by_tokens_has_the_price_of_a_unit_in_its_lines(media: Catalog) -> None:
    def lines(name: str) -> list[tuple[str, str, str, int]]:
        assert all(line.variant is None for line in card(media, name).price_lines)
        return [(line.endpoint, line.billable, line.unit, line.micro_idr) for line in card(media, name).price_lines]

    assert lines("painter") == [("images", "output_image", "image", 500_000_000)]
    assert lines("film") == [("videos", "output_video", "second", 7)]
    assert lines("ear") == [("audio_transcription", "input_audio", "second", 3_000_000)]
    assert lines("voice") == [("audio_speech", "output_audio", "1k_chars", 4_000_000)]
    assert lines("song") == [("music", "output_audio", "song", 5_000_000)]
    assert lines("both") == [
        ("chat", "input", "token_1m", 1_000_000),
        ("chat", "output", "token_1m", 2_000_000),
        ("images", "output_image", "image", 9_000_000),
    ]
    price = card(media, "painter").price
    assert (price.input, price.output, price.unit) == (0, 0, 500_000_000)
    assert card(media, "painter:free").price == price


def test_moderation_may_have_no_price(media: Catalog) -> None:
    price = card(media, "judge").price
    assert (price.input, price.output, price.unit) == (0, 0, None)


def test_a_fee_is_a_price_that_is_published_and_no_model(media: Catalog) -> None:
    assert not {"web_search", "x_search", "ocr"} & set(media.offers)
    fees = {fee.id: fee for fee in media.cards() if fee.kind == "fee"}
    assert {name: fee.price.unit for name, fee in fees.items()} == {
        "web_search": 200_000_000,
        "x_search": 0,
        "ocr": 150_000_001,
    }
    assert len({fee.price.version for fee in fees.values()}) == 3


def test_who_may_use_a_model_and_how_much_of_it_is_on_its_card(tmp_path: Path) -> None:
    (tmp_path / "catalog.yaml").write_text(
        """
providers: [{id: sim, format: simulated}]
models:
  - {id: m, vendor: v, subscribers_only: true, rupiah_per_1m_tokens: {input: 1, output: 2},
     served_by: [{provider: sim}]}
  - {id: m:free, vendor: v, free: true, free_token_budget: 1000000, served_by: [{provider: sim}]}
"""
    )
    catalog = assemble(load(tmp_path / "catalog.yaml", {}), {}, NOW_S)
    assert [
        (card(catalog, name).subscribers_only, card(catalog, name).free_token_budget) for name in ("m", "m:free")
    ] == [
        (True, None),
        (False, 1_000_000),
    ]


@pytest.mark.parametrize(
    "name",
    [
        "gpt-4o",
        "gpt-4o-mini",
        "o3",
        "gpt-5-chat-latest",
        "llama-3.1-8b-instruct",
        "Qwen/Qwen3-32B",
        "deepseek-chat",
        "meta-llama/Llama-3.3-70B-Instruct",
        "mistral-large-latest",
        "claude-sonnet-4-5",
        "gemini-2.5-pro",
        "gemma3:27b",
        "gpt-3.5-turbo",
        "gpt-4o-2024-11-20",
        "imagery-chat",
        "gpt-oss-120b",
    ],
)
def test_chat_models_are_kept(name: str) -> None:
    assert is_chat_model(name)


@pytest.mark.parametrize(
    "name",
    [
        "text-embedding-3-small",
        "tts-1",
        "tts-1-hd",
        "gpt-4o-mini-tts",
        "whisper-1",
        "gpt-4o-transcribe",
        "dall-e-3",
        "gpt-image-1",
        "omni-moderation-latest",
        "text-moderation-007",
        "gpt-4o-realtime-preview",
        "sora-2",
        "babbage-002",
        "gpt-4o-audio-preview",
        "davinci-002",
        "gpt-3.5-turbo-instruct",
        "nomic-embed-text",
        "BAAI/bge-m3",
        "o1-pro",
        "gpt-5-pro",
        "gpt-5.2-pro-2025-12-11",
        "rerank-v3.5",
        "black-forest-labs/FLUX.1-dev",
        "gpt-audio",
        "chatgpt-image-latest",
        "computer-use-preview",
        "o3-deep-research",
        "gpt-5-codex",
    ],
)
def test_other_kinds_are_left_out(name: str) -> None:
    assert not is_chat_model(name)


def test_a_list_of_anything_keeps_what_can_be_sold() -> None:
    entries = [
        {"id": "b", "owned_by": "Meta"},
        {"id": "a", "owned_by": "system"},
        {"id": "b"},
        {"id": 3},
        "x",
        None,
        {"id": "has space"},
        {"id": "x:free"},
        {"id": "byok/a/b"},
        {"id": "kenari-free"},
        {"id": "c", "owned_by": "a b"},
        {"id": "y" * 200},
        {"id": "d", "owned_by": None},
    ]
    assert usable(entries, "openai") == (
        Listed("a", "openai"),
        Listed("b", "meta"),
        Listed("c", "openai"),
        Listed("d", "openai"),
    )
    assert usable({"not": "a list"}, "openai") == ()
