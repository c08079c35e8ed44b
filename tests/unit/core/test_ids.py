"""Request ids: UUIDv7 that sort in the order they were made, whatever the clock does.
Run by pytest; no servers needed.
"""

import uuid
from collections.abc import Iterator

import pytest

from libs.core import ids
from libs.core.ids import prefixed_id, uuid7_hex, uuid7_unix_ms

NOW_MS = 1_800_000_000_000


@pytest.fixture(autouse=True)
def forget_made_up_times(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(ids, "_last_ms", 0)
    monkeypatch.setattr(ids, "_counter", 0)
    yield


def test_an_id_is_a_valid_uuid7_with_its_time() -> None:
    made = uuid7_hex(NOW_MS)
    parsed = uuid.UUID(made)
    assert (len(made), parsed.version, parsed.variant) == (32, 7, uuid.RFC_4122)
    assert uuid7_unix_ms(made) == NOW_MS


def test_ids_of_one_millisecond_differ_and_sort_in_order() -> None:
    made = [uuid7_hex(NOW_MS) for _ in range(3_000)]
    assert made == sorted(set(made))
    assert {uuid7_unix_ms(value) for value in made} == {NOW_MS}


def test_more_than_a_millisecond_holds_go_on_in_the_next() -> None:
    made = [uuid7_hex(NOW_MS) for _ in range(10_000)]
    assert made == sorted(set(made))
    assert uuid7_unix_ms(made[-1]) <= NOW_MS + 2


def test_ids_keep_their_order_when_the_clock_goes_back() -> None:
    before = [uuid7_hex(NOW_MS) for _ in range(10)]
    during = [uuid7_hex(NOW_MS - 3_600_000 + step) for step in range(10)]
    after = [uuid7_hex(NOW_MS + 1) for _ in range(10)]
    made = before + during + after
    assert made == sorted(set(made))


def test_ids_made_by_the_real_clock_sort_in_order() -> None:
    made = [uuid7_hex() for _ in range(20_000)]
    assert made == sorted(set(made))


@pytest.mark.parametrize("value", ["8c034a38-3a7f-4bdf-a8ba-a3324457560d", "0" * 32, "not an id", "f" * 32])
def test_no_time_is_read_from_what_is_no_uuid7(value: str) -> None:
    with pytest.raises(ValueError):
        uuid7_unix_ms(value)


def test_a_prefixed_id_says_what_it_names_and_sorts() -> None:
    made = [prefixed_id("acct") for _ in range(100)]
    assert all(value.startswith("acct_") for value in made)
    assert made == sorted(set(made))
