"""One run of load against one target: wrk for some seconds, and what it cost whom.
Called by tests.bench.measure; `probe` checks first that the target really answers.
"""

import http.client
import json
import os
import resource
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from tests.bench import processes

_SCRIPT = Path(__file__).with_name("chat.lua")
_MARK = "RESULT "
CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"
# A target counts as having finished its work once it uses less than this share of one core.
_QUIET_CORES = 0.15
_QUIET_WINDOW_S = 0.25
_QUIET_LIMIT_S = 5.0


class BenchError(Exception):
    """Something is missing or answers wrongly; the text is one line for the person at the terminal."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is asked, and over how many connections at once. `label` names it in tables and in bench.json."""

    label: str
    connections: int
    stream: bool = False
    path: str = CHAT


@dataclass(frozen=True, slots=True)
class Target:
    """Who is asked: `base_url` without path, `keys` to be used in turn, and whose CPU is counted, by name."""

    name: str
    base_url: str
    model: str
    keys: Sequence[str]
    pids_by_name: Mapping[str, Sequence[int]]
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What wrk saw in one run. `failed` are answers that are not 2xx or 3xx, plus broken connections."""

    requests: int
    seconds: float
    p50_ms: float
    p99_ms: float
    bad_status: int
    socket_errors: int

    @property
    def per_second(self) -> float:
        return (self.requests - self.bad_status) / self.seconds

    @property
    def failed(self) -> int:
        return self.bad_status + self.socket_errors


@dataclass(frozen=True, slots=True)
class Sample:
    """One run: what wrk saw, CPU-ms a request by process name, and strangers' share of the machine."""

    outcome: Outcome
    cpu_ms: Mapping[str, float]
    strangers: float

    @property
    def cpu_ms_total(self) -> float:
        return sum(self.cpu_ms.values())


def require_tools() -> None:
    """Raise BenchError saying what to do when this machine cannot measure."""
    if not Path("/proc/self/smaps_rollup").exists():
        raise BenchError("CPU and memory are counted from Linux's /proc: run the bench on Linux")
    if shutil.which("wrk") is None:
        raise BenchError("wrk is missing: install it (Debian, Ubuntu: apt-get install wrk) and start again")


def run_load(
    target: Target, case: Case, seconds: int, provider: Mapping[str, Sequence[int]], script: Path = _SCRIPT
) -> Sample:
    """Load `target` and wait until it has finished what it does after the answers (settling, events).

    That later work counts in its CPU time. provider: the mock's processes; they and wrk are no strangers.
    Raises BenchError when wrk or a process of the target is gone.
    """
    own_before, provider_before = processes.cpu_ms(target.pids_by_name), processes.cpu_ms(provider)
    busy_before, wrk_before, started = processes.machine_busy_ms(), _ended_children_ms(), time.monotonic()
    outcome = _run_wrk(target, case, seconds, script)
    _wait_until_quiet(target)
    wall_ms = (time.monotonic() - started) * 1000
    own = processes.cpu_ms(target.pids_by_name)
    spent = {name: own[name] - own_before[name] for name in own}
    if gone := processes.missing(target.pids_by_name):
        raise BenchError(f"{target.name}: {', '.join(gone)} ended under load")
    known = sum(spent.values()) + _ended_children_ms() - wrk_before
    if target.pids_by_name != provider:
        known += sum(processes.cpu_ms(provider).values()) - sum(provider_before.values())
    strangers = max(0.0, processes.machine_busy_ms() - busy_before - known) / wall_ms / (os.cpu_count() or 1)
    answered = max(1, outcome.requests)
    return Sample(outcome, {name: ms / answered for name, ms in spent.items()}, strangers)


def _run_wrk(target: Target, case: Case, seconds: int, script: Path) -> Outcome:
    command = ["wrk", "-t1", f"-c{case.connections}", f"-d{seconds}s", "--timeout=20s", f"--script={script}"]
    try:
        done = subprocess.run(
            [*command, target.base_url + case.path],
            env={**os.environ, **_settings(target, case)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds + 30,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BenchError(f"{target.name}: wrk did not end {seconds + 30} s after its start") from None
    return parse_outcome(done.stdout, done.stderr)


def _settings(target: Target, case: Case) -> dict[str, str]:
    """What chat.lua reads."""
    return {
        "BENCH_BODY": _body(target, case.stream),
        "BENCH_HEADERS": "\n".join(f"{name}: {value}" for name, value in _headers(target).items()),
        "BENCH_KEYS": "\n".join(target.keys),
    }


def parse_outcome(stdout: str, stderr: str = "") -> Outcome:
    """Read the line that chat.lua printed. Raises BenchError with wrk's own words when there is none."""
    for line in stdout.splitlines():
        if line.startswith(_MARK):
            return Outcome(**json.loads(line.removeprefix(_MARK)))
    words = (stderr.strip() or stdout.strip() or "it printed nothing").splitlines()[-1]
    raise BenchError(f"wrk gave no result: {words}")


def probe(target: Target, chunks: int, ends: Mapping[str, str] = {CHAT: "[DONE]"}) -> None:
    """Ask once plainly and streamed; raise BenchError unless all of the provider's answer arrives.

    ends: what the stream of each path ends in.
    """
    plain = _ask(target, CHAT, stream=False)
    if "Hello from the mock provider." not in plain:
        raise BenchError(f"{target.name} answered without the provider's text: {plain[:200]}")
    for path, end in ends.items():
        streamed = _ask(target, path, stream=True)
        if f"tok{chunks - 1} " not in streamed or end not in streamed:
            raise BenchError(f"{target.name} streamed without the provider's last words: {streamed[-200:]}")


def _ask(target: Target, path: str, *, stream: bool) -> str:
    address = urlsplit(target.base_url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=20)
    try:
        headers = {**_headers(target), "Authorization": f"Bearer {target.keys[0]}"}
        connection.request("POST", path, _body(target, stream), headers)
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
    except OSError as error:
        raise BenchError(f"{target.name} does not answer: {error}") from error
    finally:
        connection.close()
    if answer.status != 200:
        raise BenchError(f"{target.name} answered {answer.status}: {text[:200]}")
    return text


def _headers(target: Target) -> dict[str, str]:
    return {"Content-Type": "application/json", **target.headers}


def _body(target: Target, stream: bool) -> str:
    messages = [
        {"role": "system", "content": "You are terse."},
        {"role": "user", "content": "Say hello, please."},
    ]
    body = {"model": target.model, "messages": messages, "max_tokens": 64, "stream": stream}
    return json.dumps(body, separators=(",", ":"))


def _wait_until_quiet(target: Target) -> None:
    give_up_at = time.monotonic() + _QUIET_LIMIT_S
    while time.monotonic() < give_up_at:
        before = sum(processes.cpu_ms(target.pids_by_name).values())
        time.sleep(_QUIET_WINDOW_S)
        spent_s = (sum(processes.cpu_ms(target.pids_by_name).values()) - before) / 1000
        if spent_s < _QUIET_CORES * _QUIET_WINDOW_S:
            return


def _ended_children_ms() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (usage.ru_utime + usage.ru_stime) * 1000
