"""Several edges at once: what a minute holds is exact whichever of them is asked, and holds on without Valkey."""

import time
from functools import partial
from itertools import cycle
from typing import Any

import pytest

from tests.e2e.limits.asking import CHAT, FORMATS, ask, at_once, pace, shared_key
from tests.support.system import Person, System, eventually


def spread(system: System, person: Person, edges: list[str], count: int, **fields: Any) -> list[int]:
    """Statuses of that many requests, in all formats, by twelve askers over these edges."""
    turns = zip(range(count), cycle(edges), cycle(FORMATS.values()), strict=False)
    model, address = fields.get("model", "fx-oai"), fields.get("address", "")
    asks: list[tuple[Any, ...]] = [(system, person, path, model, address, base) for _, base, path in turns]
    return [answer.status_code for answer in at_once(asks)]


@pytest.mark.rule("LIMIT-010", "LIMIT-011", "LIMIT-012")
@pytest.mark.parametrize("many", [2, 3])
def test_the_accounts_pace_is_exact_over_several_edges(system: System, edges: list[str], many: int) -> None:
    person = system.person()
    pace(system, person, 20)
    time.sleep(1)
    statuses = spread(system, person, edges[:many], 70)
    assert statuses.count(200) == 20
    assert statuses.count(429) == 50


@pytest.mark.rule("LIMIT-041", "LIMIT-042")
def test_a_shared_key_and_an_address_are_exact_over_several_edges(system: System, edges: list[str]) -> None:
    owner = system.person()
    pace(system, owner, 80)
    share = shared_key(system, owner)
    time.sleep(1)
    assert spread(system, share, edges, 60, address="198.51.100.9").count(200) == 30
    asks: list[tuple[Any, ...]] = [(system, share, CHAT, "fx-oai", f"203.0.113.{n}", edges[n % 3]) for n in range(30)]
    assert [answer.status_code for answer in at_once(asks)].count(200) == 40 - 30


@pytest.mark.rule("LIMIT-016")
def test_usage_reads_are_exact_over_several_edges(system: System, edges: list[str]) -> None:
    person = system.person()
    asks = [(system, person, "/v1/usage/daily", "", "", edges[n % 3]) for n in range(70)]
    assert [answer.status_code for answer in at_once(asks)].count(200) == 60


@pytest.mark.rule("LIMIT-022")
def test_free_minutes_are_exact_over_several_edges(system: System, edges: list[str]) -> None:
    person = system.person(rupiahs=0)
    asks = [(system, person, CHAT, "fx-two-a-minute:free", "", edges[n % 3]) for n in range(12)]
    assert [answer.status_code for answer in at_once(asks, workers=3)].count(200) == 2


def test_without_valkey_paid_requests_go_on_and_addresses_are_still_held(system: System, edges: list[str]) -> None:
    owner = system.person()
    share = shared_key(system, owner)
    assert ask(system, owner).status_code == ask(system, share, address="198.51.100.77").status_code == 200
    system.valkey.kill()
    try:
        assert set(spread(system, owner, edges, 30)) == {200}
        statuses = spread(system, share, edges, 60, address="198.51.100.78")
        assert 25 <= statuses.count(200) <= 32, "one limiter: its own thirty"
        assert system.metric("limiter", "kenari_limiter_store_degraded") == 1
    finally:
        system.valkey.start()
    eventually(lambda: system.metric("limiter", "kenari_limiter_store_degraded") == 0)
    assert ask(system, owner).status_code == 200


def test_without_a_limiter_each_edge_holds_shared_keys_by_itself(system: System, edges: list[str]) -> None:
    owner = system.person()
    share = shared_key(system, owner)
    assert ask(system, share, address="198.51.100.80").status_code == 200
    system.services["limiter"].kill()
    try:
        assert set(spread(system, owner, edges, 30)) == {200}
        statuses = spread(system, share, edges[:1], 40, address="198.51.100.81")
        assert statuses.count(200) == 30
        refused = ask(system, share, address="198.51.100.81")
        assert (refused.status_code, refused.text) == (429, "too many requests, try again shortly")
    finally:
        system.start_service("limiter")
    # An edge that hears the limiter again tells its numbers.
    for base in edges:
        eventually(partial(_shows_limits, system, owner, base))


def _shows_limits(system: System, person: Person, base: str) -> bool:
    return "x-ratelimit-limit" in ask(system, person, CHAT, "fx-free:free", "", base).headers
