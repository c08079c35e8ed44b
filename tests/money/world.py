"""The models, prices and plans of the stories: few and close together, so that limits meet.

Used by stories.py, the scenario tests and conftest.py.
"""

from tests.money.model.facts import Plan
from tests.money.model.prices import Price

RUPIAH = 1_000_000
PER_TOKEN = 1_000_000
"""A price of one micro-Rupiah a token."""

# 2,000 micro-Rupiah a token in, 8,000 out, 200 from the cache, 2,500 into it.
FULL = Price("v-full", 2_000 * PER_TOKEN, 8_000 * PER_TOKEN, 200 * PER_TOKEN, 2_500 * PER_TOKEN)
# Nothing is whole, and reading the cache has a price above input, which is never charged.
ODD = Price("v-odd", 333_333_333, 777_777_777, 900_000_001)
PLAIN = Price("v-plain", 1_000 * PER_TOKEN, 4_000 * PER_TOKEN)
SILENT = Price("v-silent", 1_500 * PER_TOKEN, 0)
PIECE = Price("v-piece", 0, 0, unit=700_000)
SEARCH = Price("v-search", 0, 0, unit=300_000)
# A tenth of a micro-Rupiah a token.
CHEAP = Price("v-cheap", 100_000, 100_000)
PRICES = (FULL, ODD, PLAIN, SILENT, PIECE, SEARCH, CHEAP)

CHAT_MODELS = {"alpha": FULL, "beta": ODD, "gamma": PLAIN}
ENDPOINTS = {
    "embeddings": SILENT,
    "rerank": ODD,
    "moderations": SILENT,
    "systemone": ODD,
    "images": PIECE,
    "speech": PIECE,
    "transcriptions": PIECE,
    "music": PIECE,
    "ocr": PIECE,
    "web_search": SEARCH,
    "page_fetch": SEARCH,
    "x_search": SEARCH,
}


def plans(prefix: str) -> list[Plan]:
    """Three plans of one story, from cheap to dear."""
    return [
        Plan(f"{prefix}-small", 9 * RUPIAH, {"five_hour": 6 * RUPIAH, "week": 15 * RUPIAH}, ("alpha",), ("alpha",), 2),
        Plan(
            f"{prefix}-middle",
            20 * RUPIAH,
            {"five_hour": 10 * RUPIAH, "week": None, "month": 40 * RUPIAH},
            ("alpha", "beta"),
            ("beta",),
            3,
        ),
        Plan(f"{prefix}-open", 33 * RUPIAH, {}, ("alpha", "beta"), (), 0),
    ]
