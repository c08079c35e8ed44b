"""Traffic that keeps its own books: 64 workers against several ledger processes, through faults and retries.

Used by test_kills.py. The model knows only what was acknowledged and plain arithmetic; nothing of the ledger's code.
"""

import asyncio
import random
import time
from collections import Counter, defaultdict
from typing import Any

from kenari.ledger.v1 import ledger_pb2, ledger_pb2_grpc

from libs.core.ids import uuid7_hex
from libs.core.settings import TelemetrySettings
from libs.ops.telemetry import Telemetry
from libs.rpc.checks import CheckClient, CheckFailedError
from libs.rpc.client import RpcClient

PRICE = "v-traffic"
INPUT, OUTPUT = 2_000, 8_000
"""Micro-Rupiah per token; the price row says the same per million."""


class Clients:
    """A check stream to each process; a call goes to any of them."""

    def __init__(self, ports: list[int], dice: random.Random) -> None:
        telemetry = Telemetry("traffic", TelemetrySettings())
        self._dice = dice
        self._rpcs = [RpcClient(f"127.0.0.1:{port}", telemetry, deadline_s=2.0) for port in ports]
        self._checks = [
            CheckClient(
                f"ledger-{number}",
                ledger_pb2_grpc.LedgerStub(rpc.channel).CheckStream,
                ledger_pb2.CheckBatch,
                ledger_pb2.CheckItem,
                telemetry,
            )
            for number, rpc in enumerate(self._rpcs)
        ]

    async def start(self) -> None:
        for checks in self._checks:
            await checks.start()

    async def stop(self) -> None:
        for checks in self._checks:
            await checks.stop()
        for rpc in self._rpcs:
            await rpc.stop()

    async def ask(self, kind: str, message: Any, give_up_s: float) -> Any:
        """Ask any process, again under the same id while there is no answer; None when given up."""
        until = time.monotonic() + give_up_s
        while time.monotonic() < until:
            try:
                return await self._dice.choice(self._checks).ask(kind, message, 1.0)
            except CheckFailedError as error:
                if error.reason not in ("deadline", "unavailable", "overloaded", "superseded"):
                    raise
                await asyncio.sleep(self._dice.uniform(0.01, 0.1))
        return None


class Traffic:
    """Workers and what they know to have happened."""

    def __init__(self, clients: Clients, accounts: list[str], dice: random.Random) -> None:
        self._clients = clients
        self._accounts = accounts
        self._dice = dice
        self.spent: defaultdict[str, int] = defaultdict(int)
        self.settled: dict[str, int] = {}
        self.free: set[str] = set()
        self.conflicts: set[str] = set()
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []

    async def run(self, workers: int, seconds: float) -> None:
        """Make traffic that long; returns when every settlement that was begun is acknowledged."""
        until = time.monotonic() + seconds
        await asyncio.gather(*(self._worker(until) for _ in range(workers)))

    async def _worker(self, until: float) -> None:
        while time.monotonic() < until:
            # Most of the traffic meets on the first accounts.
            hot = self._dice.random() < 0.6
            account = self._dice.choice(self._accounts[:4] if hot else self._accounts)
            await (self._free(account) if self._dice.random() < 0.1 else self._paid(account))

    async def _paid(self, account: str) -> None:
        request_id = uuid7_hex()
        call = ledger_pb2.ReserveRequest(
            request_id=request_id,
            account_id=account,
            key_id="key_1",
            endpoint="chat",
            model="sim-1",
            vendor="Simulated",
            price_version=PRICE,
            estimated_input_tokens=self._dice.randint(1, 200),
            max_tokens=self._dice.randint(1, 4_000),
        )
        answer = await self._clients.ask("reserve", call, 2.0)
        if answer is None:
            self.counts["reserve unknown"] += 1
            return
        if answer.HasField("denied"):
            self.counts["denied"] += 1
            return
        granted = answer.granted
        if granted.available_micro_idr < 0 or granted.max_tokens > call.max_tokens:
            self.wrong.append(f"{request_id} granted {granted}")
        await asyncio.sleep(self._dice.uniform(0, 0.05))
        await self._end(call, granted)

    async def _end(self, call: Any, granted: Any) -> None:
        way = self._dice.random()
        if way < 0.05:
            self.counts["abandoned"] += 1
        elif way < 0.15:
            release = ledger_pb2.ReleaseRequest(request_id=call.request_id, account_id=call.account_id)
            answer = await self._clients.ask("release", release, 60.0)
            self.counts["released" if answer is not None else "release unknown"] += 1
        else:
            prompt, completion = self._dice.randint(0, 250), self._dice.randint(0, granted.max_tokens)
            said = self._settlement(call, granted.descriptor, prompt, completion, "payg")
            cost = prompt * INPUT + completion * OUTPUT if completion else 0
            # A settlement is repeated until somebody has it, as the events are.
            answer = await self._clients.ask("settle", said, 120.0)
            self._expect(call, answer, cost)
            self.spent[call.account_id] += cost
            self.settled[call.request_id] = cost
            if way > 0.8:
                self._expect(call, await self._clients.ask("settle", said, 60.0), cost, again=True)
            if way > 0.97:
                await self._contradict(call, said, cost)

    async def _contradict(self, call: Any, said: Any, cost: int) -> None:
        said.completion_tokens += 1
        answer = await self._clients.ask("settle", said, 60.0)
        if answer is None or not answer.conflict or answer.cost_micro_idr != cost:
            self.wrong.append(f"{call.request_id} contradicted, answered {answer}")
        self.conflicts.add(call.request_id)
        self.counts["contradicted"] += 1

    async def _free(self, account: str) -> None:
        call = ledger_pb2.ReserveRequest(
            request_id=uuid7_hex(),
            account_id=account,
            key_id="key_1",
            endpoint="chat",
            model="sim-1:free",
            vendor="Simulated",
            price_version=PRICE,
        )
        said = self._settlement(call, "", 10, 10, "free")
        answers = await asyncio.gather(*(self._clients.ask("settle", said, 120.0) for _ in range(2)))
        for answer in answers:
            if answer is None or answer.conflict or answer.cost_micro_idr:
                self.wrong.append(f"{call.request_id} free, answered {answer}")
        self.free.add(call.request_id)
        self.counts["free"] += 1

    def _expect(self, call: Any, answer: Any, cost: int, *, again: bool = False) -> None:
        if answer is None or answer.conflict or answer.cost_micro_idr != cost or (again and not answer.duplicate):
            self.wrong.append(f"{call.request_id} cost {cost}, answered {answer}")
        elif answer.duplicate and not again:
            self.counts["acknowledged late"] += 1
        self.counts["settled"] += not again

    @staticmethod
    def _settlement(call: Any, descriptor: str, prompt: int, completion: int, kind: str) -> Any:
        return ledger_pb2.SettleRequest(
            request_id=call.request_id,
            account_id=call.account_id,
            key_id=call.key_id,
            endpoint=call.endpoint,
            model=call.model,
            vendor=call.vendor,
            price_version=call.price_version,
            billing_kind=kind,
            outcome=ledger_pb2.OUTCOME_COMPLETED,
            prompt_tokens=prompt,
            completion_tokens=completion,
            descriptor=descriptor,
            started_at_ms=int(time.time() * 1000),
        )
