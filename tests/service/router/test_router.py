"""A whole router on real PostgreSQL and Kafka: routes, health over the topics, restarts, discovery."""

from pathlib import Path

import asyncpg
import grpc
import pytest
from kenari.router.v1 import router_pb2

from libs.core.errors import ConfigError
from libs.core.settings import TelemetrySettings
from libs.db.migrate import folders
from services.router.catalog.marks import CatalogError
from services.router.domain import HealthRules
from services.router.settings import HealthSettings
from tests.service.router.listing_provider import ListingProvider
from tests.service.router.world import Router, Watcher, unique, until
from tests.support.stack import Postgres


class Names:
    """Provider and model names of one test, and a catalogue with them."""

    def __init__(self) -> None:
        self.first, self.second, self.model = unique("p1"), unique("p2"), unique("m")
        self.one, self.two = f"{self.first}/default", f"{self.second}/default"

    def catalog(self, price: int = 10, extra: str = "") -> str:
        return f"""
providers:
  - {{id: {self.first}, format: openai_chat, base_url: "http://127.0.0.1:9/v1"}}
  - {{id: {self.second}, format: simulated}}
models:
  - id: {self.model}
    vendor: v
    rupiah_per_1m_tokens: {{input: {price}, output: {price}}}
    served_by: [{{provider: {self.first}}}, {{provider: {self.second}, order: 1}}]
{extra}"""


@pytest.fixture
def names() -> Names:
    return Names()


async def test_a_started_router_routes_and_has_published_its_models(
    names: Names, dsn: str, kafka: str, watcher: Watcher, tmp_path: Path
) -> None:
    async with Router(tmp_path, dsn, kafka, names.catalog()) as router:
        assert await router.tries(names.model) == [names.one, names.two]
        assert (await router.ask("nothing")).refusal.code == "model_not_found"
        card = await until(lambda: watcher.catalog.get(names.model))
        route = (await router.ask(names.model)).route
        assert (card.version, card.price.input, card.price.version) == (1, 10_000_000, route.model.price.version)
        assert [line.billable for line in card.price_lines] == ["input", "output"]
        price = await router.price(card.price.version)
        assert price.price.output == 10_000_000
        assert not (await router.price("price_never")).HasField("price")


async def test_restarts_publish_changes_only(
    names: Names, dsn: str, kafka: str, watcher: Watcher, tmp_path: Path
) -> None:
    def mine() -> list[int | None]:
        # A version may come twice: by the outbox, and by the owner who saw it missing.
        return list(dict.fromkeys(version for key, version in watcher.seen if key == names.model))

    async with Router(tmp_path, dsn, kafka, names.catalog(10)) as router:
        old = (await router.ask(names.model)).route.model.price.version
        await until(lambda: mine() == [1])
    async with Router(tmp_path, dsn, kafka, names.catalog(10)):
        pass
    async with Router(tmp_path, dsn, kafka, names.catalog(20)) as router:
        await until(lambda: mine() == [1, 2])
        # The ledger may hold amounts at the earlier price for as long as it likes.
        assert (await router.price(old)).price.input == 10_000_000
    async with Router(tmp_path, dsn, kafka, names.catalog(20).replace(names.model, unique("other"))):
        await until(lambda: mine() == [1, 2, None])
        assert watcher.catalog.get(names.model) is None


@pytest.mark.rule("ROUTE-001", "ROUTE-006")
async def test_attempts_of_the_edges_pause_an_upstream_and_a_probe_brings_it_back(
    names: Names, dsn: str, kafka: str, watcher: Watcher, tmp_path: Path
) -> None:
    async with Router(tmp_path, dsn, kafka, names.catalog()) as router:
        for outcome in ("completed", "rejected", "client_closed", "refused", "timeout"):
            watcher.tried(names.one, outcome)
        watcher.tried(names.one, "failed", status=500)
        await router.eventually(names.model, [names.two])
        said = await until(lambda: watcher.health.get(names.one))
        assert (said.state, said.reason, said.pauses) == ("cooling", "failed", 1)
        # The pause is 1 s here; then one request is let through and the next ones wait for its outcome.
        await router.eventually(names.model, [names.one, names.two])
        assert await router.tries(names.model) == [names.two]
        watcher.tried(names.one, "completed")
        await router.eventually(names.model, [names.one, names.two])
        assert await router.tries(names.model) == [names.one, names.two]
        await until(lambda: (said := watcher.health.get(names.one)) and said.state == "healthy")


async def test_every_upstream_paused_is_a_refusal_with_a_time(
    names: Names, dsn: str, kafka: str, watcher: Watcher, tmp_path: Path
) -> None:
    async with Router(tmp_path, dsn, kafka, names.catalog()) as router:
        for upstream in (names.one, names.two):
            watcher.tried(upstream, "rate_limited", status=429, retry_after_ms=30_000)
        await router.eventually(names.model, [])
        refusal = (await router.ask(names.model)).refusal
        assert refusal.code == "all_providers_failed"
        assert 25 <= refusal.retry_after_s <= 30


async def test_a_pause_outlives_a_restart_and_reaches_other_routers(
    names: Names, dsn: str, kafka: str, watcher: Watcher, tmp_path: Path
) -> None:
    async with Router(tmp_path / "a", dsn, kafka, names.catalog()) as router:
        watcher.tried(names.one, "rate_limited", status=429, retry_after_ms=60_000)
        await router.eventually(names.model, [names.two])
        await until(lambda: watcher.health.get(names.one))
        async with Router(tmp_path / "b", dsn, kafka, names.catalog()) as other:
            await other.eventually(names.model, [names.two])
    async with Router(tmp_path / "a", dsn, kafka, names.catalog()) as router:
        await router.eventually(names.model, [names.two])


async def test_reports_that_come_late_pause_nothing(
    names: Names, dsn: str, kafka: str, watcher: Watcher, tmp_path: Path
) -> None:
    async with Router(tmp_path, dsn, kafka, names.catalog()) as router:
        for _ in range(20):
            watcher.tried(names.one, "failed", ago_ms=HealthRules().stale_ms + 5_000)
        watcher.tried(names.two, "rate_limited", retry_after_ms=60_000)
        await router.eventually(names.model, [names.one])


DISCOVERING = """
discovered:
  rupiah_per_1m_tokens: {input: 500, output: 900}
"""


async def test_a_providers_models_appear_change_and_survive_its_absence(
    names: Names, dsn: str, kafka: str, watcher: Watcher, tmp_path: Path
) -> None:
    listed, other = unique("listed"), unique("other")
    async with ListingProvider() as provider:
        provider.models = [listed, names.model, "text-embedding-3-small"]
        catalog = names.catalog(extra=DISCOVERING).replace("http://127.0.0.1:9/v1", provider.base_url)
        catalog = catalog.replace(f'"{provider.base_url}"', f'"{provider.base_url}", discover: true')
        async with Router(tmp_path, dsn, kafka, catalog, discover_every_s=0.5) as router:
            await router.eventually(listed, [names.one])
            assert (await router.ask(listed)).route.model.price.input == 500_000_000
            assert (await router.ask(names.model)).route.model.price.input == 10_000_000
            assert await router.tries(names.model) == [names.one, names.two]
            assert (await router.ask("text-embedding-3-small")).refusal.code == "model_not_found"
            provider.models = [other]
            await router.eventually(other, [names.one])
            assert (await router.ask(listed)).refusal.code == "model_not_found"
            assert await router.tries(names.model) == [names.two]
            await until(lambda: watcher.catalog.get(other) and not watcher.catalog.get(listed))
    # The provider is gone now; what it listed last is still for sale.
    async with Router(tmp_path, dsn, kafka, catalog, discover_every_s=0.5) as router:
        assert await router.tries(other) == [names.one]
        failures = f'kenari_router_discovery_failures_total{{provider="{names.first}"'
        await until(lambda: failures in router.service.telemetry.scrape().decode())


async def test_a_provider_that_never_answers_does_not_stop_the_start(
    names: Names, dsn: str, kafka: str, tmp_path: Path
) -> None:
    catalog = names.catalog(extra=DISCOVERING).replace('9/v1"', '9/v1", discover: true')
    async with Router(tmp_path, dsn, kafka, catalog) as router:
        assert await router.tries(names.model) == [names.two]


async def test_a_wrong_file_is_refused_before_anything_starts(
    names: Names, dsn: str, kafka: str, tmp_path: Path
) -> None:
    with pytest.raises(CatalogError, match=r"catalog\.yaml:8: 'input' must be a whole number, not 10\.5") as refused:
        async with Router(tmp_path, dsn, kafka, names.catalog().replace("input: 10", "input: 10.5")):
            pass
    assert isinstance(refused.value, ConfigError)


async def test_routing_goes_on_while_the_database_is_away(
    names: Names, own_postgres: Postgres, kafka: str, watcher: Watcher, tmp_path: Path
) -> None:
    dsn = await own_postgres.database(folders()["router"])
    long = HealthSettings(first_pause_ms=60_000)
    async with Router(tmp_path, dsn, kafka, names.catalog(), health=long) as router:
        version = (await router.ask(names.model)).route.model.price.version
        own_postgres.server.stop()
        try:
            assert await router.tries(names.model) == [names.one, names.two]
            for _ in range(3):
                watcher.tried(names.one, "failed")
            await router.eventually(names.model, [names.two])
            await until(lambda: watcher.health.get(names.one))
            assert (await router.price(version)).HasField("price")
            with pytest.raises(grpc.aio.AioRpcError, match="UNAVAILABLE"):
                await router.price("price_elsewhere")
        finally:
            own_postgres.server.start()
        await until(lambda: not router.service.problems(), 30)
        assert not (await router.price("price_elsewhere")).HasField("price")


async def test_no_secret_is_stored(
    names: Names, dsn: str, kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = unique("sk-secret")
    monkeypatch.setenv("ROUTER_TEST_KEY", secret)
    catalog = names.catalog().replace('9/v1"', '9/v1", key_env: ROUTER_TEST_KEY')
    async with Router(tmp_path, dsn, kafka, catalog) as router:
        attempt = (await router.ask(names.model)).route.attempts[0]
        assert (attempt.credential, attempt.upstream_id) == (secret, f"{names.first}/ROUTER_TEST_KEY")
        assert secret not in router.service.telemetry.scrape().decode()
    conn = await asyncpg.connect(dsn)
    try:
        for table in ("model", "model_revision", "price_version", "listing", "outbox"):
            rows = await conn.fetch(f"select t::text as row from {table} t")
            assert not any(secret in row["row"] for row in rows)
    finally:
        await conn.close()


async def test_a_sampled_question_leaves_a_span_under_its_asker(
    names: Names, dsn: str, kafka: str, tmp_path: Path
) -> None:
    spans = tmp_path / "spans.jsonl"
    telemetry = TelemetrySettings(trace_file=spans)
    trace_id, asker = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    async with Router(tmp_path, dsn, kafka, names.catalog(), telemetry=telemetry) as router:
        question = router_pb2.RouteRequest(request_id="r", model=names.model, endpoint="chat")
        await router.checks.ask("route", question, 2.0, f"00-{trace_id}-{asker}-01")
        await router.ask(names.model)
    written = [line for line in spans.read_text().splitlines() if "router.route" in line]
    assert len(written) == 1
    assert trace_id in written[0]
    assert asker in written[0]
