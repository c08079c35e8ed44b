"""The whole of kenari as processes on stores of its own, whose parts a test can kill, freeze and start again.
Used by the end-to-end and fault tests through the session fixture ``system``.
"""

import secrets
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import grpc
import httpx
from kenari.accounts.v1 import accounts_pb2, accounts_pb2_grpc
from kenari.ledger.v1 import funding_pb2_grpc, ledger_pb2, ledger_pb2_grpc
from kenari.router.v1 import router_pb2, router_pb2_grpc

from deploy.local import KafkaServer, PostgresServer, ValkeyServer, wiring
from deploy.local.addresses import DEFAULTS, Ports
from deploy.local.ports import pick_free_port
from deploy.local.services import ServiceProcess
from libs.core.money import rupiah
from tests.support.tools import run_tool

S = TypeVar("S")

SERVICES = ("accounts", "router", "limiter", "ledger", "edge")

# Short enough that a test can wait for what production waits minutes for.
QUICK: Mapping[str, str] = {
    # Apache Kafka, not the broker of `make run` that forgets.
    "KENARI_KAFKA__KEEPS_RECORDS": "true",
    "KENARI_KAFKA__FETCH_MAX_WAIT_MS": "500",
    "EDGE_WAITS__KEEPALIVE_S": "1",
    "EDGE_TOUCH_EVERY_S": "2",
    "LEDGER_HOLD_TTL_S": "6",
    "LEDGER_SWEEP_EVERY_S": "1",
    "LIMITER_ACCOUNT_RPM": "5000",
}


@dataclass(frozen=True)
class Person:
    """An account with money and a key."""

    account_id: str
    key_id: str
    key: str

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.key}"}


class System:
    """Start with a catalogue file; ``environment`` overrides settings of the services."""

    def __init__(self, directory: Path, catalog: Path, environment: Mapping[str, str] | None = None) -> None:
        self._stack = ExitStack()
        self._state = wiring.State(directory / "state")
        self.ports = Ports({setting: pick_free_port() for setting in DEFAULTS})
        self.postgres = PostgresServer(directory / "postgres")
        self.valkey = ValkeyServer(directory / "valkey")
        self.kafka = KafkaServer(directory / "kafka")
        self._environment = {**QUICK, "ROUTER_CATALOG_FILE": str(catalog), **(environment or {})}
        self.services: dict[str, ServiceProcess] = {}
        self.base_url = self.ports.base_url

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start stores, migrate, apply topics, start every service; each is ready afterwards."""
        self._state.logs.mkdir(parents=True, exist_ok=True)
        for store in (self.postgres, self.valkey, self.kafka):
            self._stack.enter_context(store)
        self.postgres.create_databases(wiring.WITH_DATABASE)
        for name in wiring.WITH_DATABASE:
            run_tool("libs.db.migrate", name, "--dsn", self.postgres.dsn(name))
        run_tool("libs.kafka.topics", "apply", "--bootstrap", self.kafka.address)
        # Makes the secrets, so that the threads below find them.
        self.settings()
        # Together, for they wait for each other's tables; a failed start is raised when all have ended.
        with ThreadPoolExecutor(len(SERVICES)) as pool:
            starts = [pool.submit(self.start_service, name) for name in SERVICES]
        for start in starts:
            start.result()

    def stop(self) -> None:
        for name in reversed(SERVICES):
            if name in self.services:
                self.services[name].stop()
        self._stack.close()

    def settings(self) -> dict[str, str]:
        """The variables the services run with."""
        dsns = {name: self.postgres.dsn(name) for name in wiring.WITH_DATABASE}
        wired = wiring.settings(self._state, self.ports, dsns, self.valkey.url, self.kafka.address, self._environment)
        return {**wired, **self._environment}

    def start_service(self, name: str) -> None:
        """Start (again) one service and wait until it is ready."""
        process = ServiceProcess(self._state, name, (name,), self.ports, self.settings(), lambda _: None, lambda: False)
        process.start()
        self.services[name] = process

    def person(self, rupiahs: int = 100_000, **key: Any) -> Person:
        """A new account with that many Rupiah and one key; ``key`` are fields of CreateKeyRequest."""
        account_id = f"acct_{secrets.token_hex(6)}"
        with self.accounts() as accounts:
            accounts.CreateAccount(accounts_pb2.CreateAccountRequest(account_id=account_id, name="Test"), timeout=10)
            made = accounts.CreateKey(
                accounts_pb2.CreateKeyRequest(account_id=account_id, label="test", **key), timeout=10
            )
        if rupiahs:
            self.credit(account_id, rupiahs)
        return Person(account_id, made.key.key_id, made.secret)

    def credit(self, account_id: str, rupiahs: int) -> None:
        with self.ledger() as ledger:
            request = ledger_pb2.CreditRequest(
                account_id=account_id,
                amount_micro_idr=rupiah(rupiahs),
                idempotency_key=secrets.token_hex(8),
                kind="top_up",
            )
            ledger.Credit(request, timeout=10)

    def accounts(self) -> "_Stub[accounts_pb2_grpc.AccountsStub]":
        return _Stub(accounts_pb2_grpc.AccountsStub, self.ports.rpc("accounts"))

    def ledger(self) -> "_Stub[ledger_pb2_grpc.LedgerStub]":
        return _Stub(ledger_pb2_grpc.LedgerStub, self.ports.rpc("ledger"))

    def funds(self) -> "_Stub[funding_pb2_grpc.FundsStub]":
        return _Stub(funding_pb2_grpc.FundsStub, self.ports.rpc("ledger"))

    def route(self, person: Person, name: str, *models: str, strategy: Any = router_pb2.STRATEGY_FALLBACK) -> None:
        """Give the person's account a route of that name over these models, each paid by its balance."""
        steps = [router_pb2.RouteStep(model=model, credential="balance", weight=1) for model in models]
        with _Stub(router_pb2_grpc.RoutesStub, self.ports.rpc("router")) as routes:
            create = router_pb2.CreateRouteRequest(account_id=person.account_id, name=name)
            made = routes.CreateRoute(create, timeout=10).route
            wanted = router_pb2.NamedRoute(route_id=made.route_id, name=name, strategy=strategy, steps=steps)
            save = router_pb2.SaveRouteRequest(account_id=person.account_id, route=wanted)
            routes.SaveRoute(save, timeout=10)

    def http(self, person: Person | None = None, timeout: float = 30.0) -> httpx.Client:
        """A client of the public API, with the person's key."""
        headers = person.headers if person else {}
        # No TLS here, and reading the root certificates would take most of a request's time.
        return httpx.Client(base_url=self.base_url, headers=headers, timeout=timeout, verify=False)

    def balance(self, person: Person) -> dict[str, Any]:
        with self.http(person) as client:
            answer = client.get("/v1/account/balance")
            answer.raise_for_status()
            body: dict[str, Any] = answer.json()
            return body

    def usage(self, person: Person) -> list[dict[str, Any]]:
        with self.http(person) as client:
            answer = client.get("/v1/usage/log")
            answer.raise_for_status()
            rows: list[dict[str, Any]] = answer.json()["data"]
            return rows

    def request(self, request_id: str) -> ledger_pb2.GetRequestResponse:
        """What the books say of one request."""
        with self.ledger() as ledger:
            answer: ledger_pb2.GetRequestResponse = ledger.GetRequest(
                ledger_pb2.GetRequestRequest(request_id=request_id), timeout=10
            )
            return answer

    def metric(self, service: str, name: str, **labels: str) -> float:
        """The sum of a metric's samples whose labels fit."""
        text = httpx.get(f"http://{self.ports.ops(service)}/metrics", timeout=10, verify=False).text
        total = 0.0
        for line in text.splitlines():
            if line.startswith((name + "{", name + " ")) and all(f'{k}="{v}"' in line for k, v in labels.items()):
                total += float(line.rsplit(" ", 1)[1])
        return total

    def traces(self) -> Path:
        """The file of finished spans."""
        return self._state.traces

    def reconcile(self) -> str:
        """Run the invariants of the books; raise with their report when one is broken."""
        return run_tool("services.ledger.reconcile", environment=self.settings())


class _Stub(Generic[S]):
    """A synchronous stub on a channel that is closed when the block ends."""

    def __init__(self, stub: Callable[[Any], S], address: str) -> None:
        self._channel = grpc.insecure_channel(address)
        self._stub = stub(self._channel)

    def __enter__(self) -> S:
        return self._stub

    def __exit__(self, *_: object) -> None:
        self._channel.close()


def eventually(check: Callable[[], Any], within_s: float = 10.0, every_s: float = 0.1) -> Any:
    """The first true value of ``check``; its last error or AssertionError when none comes in time."""
    ends = time.monotonic() + within_s
    while True:
        try:
            if value := check():
                return value
            error: Exception = AssertionError(f"not within {within_s} s; last: {value!r}")
        except Exception as failed:
            error = failed
        if time.monotonic() >= ends:
            raise error
        time.sleep(every_s)
