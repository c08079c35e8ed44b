"""The real servers of the tests, one of each per session: Kafka, PostgreSQL, Valkey; and such as a test may break.

Fixtures for all tests, made known by tests/conftest.py. Nothing is skipped when a server is missing: it fails.
"""

import asyncio
import secrets
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import asyncpg
import pytest

from deploy.local import LocalServerError, PostgresServer, ValkeyServer
from deploy.local.brokers import Broker, ExternalBroker, choose_broker
from libs.db.migrate import migrate
from libs.kafka.topics import apply


class Postgres:
    """A PostgreSQL server on which each test takes a database of its own."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self._templates: dict[Path, str] = {}

    async def database(self, migrations: Path | None = None) -> str:
        """Make an empty database, or one with these migrations applied, and return the DSN of its owner."""
        if migrations is None:
            return await self._create()
        if migrations not in self._templates:
            # Migrated once; copying it takes a tenth of the time.
            template = await self._create()
            await migrate(template, migrations)
            self._templates[migrations] = template.rsplit("/", 1)[1]
        return await self._create(template=self._templates[migrations])

    async def _create(self, template: str = "template1") -> str:
        name = f"t{secrets.token_hex(6)}"
        admin = await asyncpg.connect(self.server.dsn())
        try:
            password = self.server.dsn().partition("//")[2].partition(":")[2].partition("@")[0]
            await admin.execute(f"create role {name} login password '{password}'")
            await admin.execute(f"create database {name} owner {name} template {template}")
            if template != "template1":
                await self._hand_over(template, name)
        finally:
            await admin.close()
        return self.server.dsn(name)

    async def _hand_over(self, former: str, name: str) -> None:
        """Objects of a copy still belong to the template's owner."""
        url = self.server.dsn()
        inside = await asyncpg.connect(url.rsplit("/", 1)[0] + f"/{name}")
        try:
            await inside.execute(f"reassign owned by {former} to {name}")
        finally:
            await inside.close()


class _Say:
    """Prints through pytest's capture, so that everyone sees which Kafka the tests ran on."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._capture = request.config.pluginmanager.getplugin("capturemanager")

    def __call__(self, line: str) -> None:
        with self._capture.global_and_fixture_disabled() if self._capture else nullcontext():
            # A parallel worker has no standard output of its own.
            print(f"\n{line}", file=sys.__stderr__, flush=True)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Broker]:
    """The Kafka of this session, for tests that leave it alone."""
    with choose_broker(tmp_path_factory.mktemp("kafka"), say=_Say(request)) as chosen:
        yield chosen


@pytest.fixture(scope="session")
def kafka(broker: Broker) -> str:
    """Bootstrap address of the session's Kafka, with the registry's topics applied."""
    asyncio.run(apply(broker.address))
    return broker.address


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A Kafka the tests of one module may stop, kill and freeze; they leave it running."""
    chosen = choose_broker(tmp_path_factory.mktemp("own-kafka"), {}, say=lambda _: None)
    if isinstance(chosen, ExternalBroker):
        raise LocalServerError("a test that breaks its broker needs one of its own")
    with chosen:
        yield chosen


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """The PostgreSQL of this session; ``await postgres.database(folder)`` gives a test its database."""
    with PostgresServer(tmp_path_factory.mktemp("postgres")) as server:
        yield Postgres(server)


@pytest.fixture(scope="module")
def own_postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A PostgreSQL the tests of one module may stop, kill and freeze; they leave it running."""
    with PostgresServer(tmp_path_factory.mktemp("own-postgres")) as server:
        yield Postgres(server)


@pytest.fixture(scope="session")
def valkey_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of the session's Valkey, database 0; tests keep to keys of their own."""
    with ValkeyServer(tmp_path_factory.mktemp("valkey")) as server:
        yield f"{server.url}0"


@pytest.fixture(scope="module")
def own_valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    """A Valkey the tests of one module may stop, kill and freeze; they leave it running."""
    with ValkeyServer(tmp_path_factory.mktemp("own-valkey")) as server:
        yield server
