"""`python -m tests.bench run`: the gateway with everything on, the mock alone, and the yardstick.
Called by tests.bench.__main__, that is by `make bench`.
"""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.bench import load, report
from tests.bench.gateway import Gateway, start_gateway
from tests.bench.load import Case, Target
from tests.bench.measure import Effort, Figures, Samples, cost_in_units, run_rounds, summarise
from tests.bench.mock_provider import MODEL
from tests.bench.processes import memory_mib
from tests.bench.report import Goal
from tests.bench.servers import STREAM_CHUNKS, MockProvider, RawAsgi

PLAIN_1 = Case("plain c=1", 1)
PLAIN_16 = Case("plain c=16", 16)
PLAIN_64 = Case("plain c=64", 64)
STREAM_16 = Case("stream c=16", 16, stream=True)
_ONE_ACCOUNT_64 = Case("one account c=64", 64)
# Plans, caps and limits on: what may pay or refuse is looked at by every request.
_CAPPED_64 = Case("capped c=64", 64)
_FREE_16 = Case("free plain c=16", 16)
# An Anthropic client on an OpenAI-format provider: what translation costs.
_MESSAGES_64 = Case("messages plain c=64", 64, path=load.MESSAGES)
_MESSAGES_STREAM_16 = Case("messages stream c=16", 16, stream=True, path=load.MESSAGES)
_TRANSLATED = (_MESSAGES_64, _MESSAGES_STREAM_16)
_CASES = (PLAIN_1, PLAIN_16, PLAIN_64, STREAM_16, *_TRANSLATED, _ONE_ACCOUNT_64, _CAPPED_64, _FREE_16)
_ENDS = {load.CHAT: "[DONE]", load.MESSAGES: "message_stop"}


def gateway_target(gateway: Gateway, model: str) -> Target:
    """The running gateway as a target for load on one of its models."""
    return Target("gateway", gateway.base_url, model, gateway.keys, gateway.pids_by_name)


def run(effort: Effort, work: Path, output: Path) -> int:
    """Measure, print, write the part "run" of `output`; returns how many requests failed.

    work: directory for the servers' logs. Raises BenchError or a LocalServerError with one line to show.
    """
    with ExitStack() as stack:
        mock = stack.enter_context(MockProvider(work / "mock"))
        raw = stack.enter_context(RawAsgi(work / "raw"))
        gateway = start_gateway(mock.api_url, MODEL)
        stack.callback(gateway.stop)
        paid = gateway_target(gateway, gateway.paid_model)
        free = gateway_target(gateway, gateway.free_model)
        mock_alone = Target("mock", mock.base_url, MODEL, ["none"], {"mock": [mock.pid]})
        yardstick = Target("raw ASGI", raw.base_url, MODEL, ["none"], {"raw": [raw.pid]})
        load.probe(paid, STREAM_CHUNKS, _ENDS)
        load.probe(free, STREAM_CHUNKS)
        steps = [
            (yardstick, PLAIN_16),
            (mock_alone, PLAIN_1),
            *((paid, case) for case in (PLAIN_1, PLAIN_16, PLAIN_64, STREAM_16, *_TRANSLATED)),
            (replace(paid, keys=paid.keys[:1]), _ONE_ACCOUNT_64),
            (replace(paid, keys=gateway.capped_keys), _CAPPED_64),
            (free, _FREE_16),
        ]
        print(f"measuring {len(steps)} cases, about {effort.expected_s(len(steps)):.0f} s", flush=True)
        samples = run_rounds(steps, effort, mock_alone.pids_by_name)
        memory = memory_mib(gateway.pids_by_name)
        parts = dict(gateway.parts)
    figures = {key: summarise(runs) for key, runs in samples.items()}
    part = _summary(samples, figures)
    print(_text(figures, memory, part))
    goals = _goals(figures, part)
    print("\ngoals\n" + report.goals_text(goals))
    report.write_part(
        output,
        "run",
        {
            **report.conditions(effort),
            "parts": parts,
            **part,
            "memory_mib": {name: round(mib, 1) for name, mib in memory.items()},
            "goals": [goal.as_json() for goal in goals],
            "samples": report.raw_samples(samples),
        },
    )
    return sum(figure.failed for figure in figures.values())


def _summary(samples: Samples, figures: dict[tuple[str, str], Figures]) -> dict[str, Any]:
    unit = samples["raw ASGI", PLAIN_16.label]
    alone = figures["mock", PLAIN_1.label]
    one = figures["gateway", PLAIN_1.label]
    in_units = {case.label: round(cost_in_units(samples["gateway", case.label], unit), 2) for case in _CASES}
    return {
        "u_cpu_ms": round(figures["raw ASGI", PLAIN_16.label].cpu_ms_total, 4),
        "cpu_in_u": in_units,
        "translation": {
            "plain": round(in_units[_MESSAGES_64.label] / in_units[PLAIN_64.label], 3),
            "stream": round(in_units[_MESSAGES_STREAM_16.label] / in_units[STREAM_16.label], 3),
        },
        "caps": round(in_units[_CAPPED_64.label] / in_units[PLAIN_64.label], 3),
        "added_p50_ms": round(one.p50_ms - alone.p50_ms, 3),
        "added_p99_ms": round(one.p99_ms - alone.p99_ms, 3),
        "gateway": {case.label: figures["gateway", case.label].as_json() for case in _CASES},
        "mock": {PLAIN_1.label: alone.as_json()},
    }


def _goals(figures: dict[tuple[str, str], Figures], part: dict[str, Any]) -> list[Goal]:
    plain, stream = figures["gateway", PLAIN_64.label], figures["gateway", STREAM_16.label]
    return [
        Goal("plain requests a second, 64 connections", plain.per_second, 2500, "at least"),
        Goal("their p99 in ms", plain.p99_ms, 60, "at most"),
        Goal("20-chunk streams a second, 16 connections", stream.per_second, 900, "at least"),
        Goal("added p50 in ms, 1 connection", part["added_p50_ms"], 2, "at most"),
        Goal("CPU of a plain request in u, 64 connections", part["cpu_in_u"][PLAIN_64.label], 20, "at most"),
        Goal("CPU of a stream in u, 16 connections", part["cpu_in_u"][STREAM_16.label], 45, "at most"),
        Goal("CPU of a request under plans and caps in plain ones", part["caps"], 1.1, "at most"),
        Goal("CPU of a translated request in same-format ones", part["translation"]["plain"], 1.5, "at most"),
        Goal("CPU of a translated stream in same-format ones", part["translation"]["stream"], 1.5, "at most"),
    ]


def _text(figures: dict[tuple[str, str], Figures], memory: dict[str, float], part: dict[str, Any]) -> str:
    rows = [
        [f"{target} {case}", *report.speed_row(figure), _units(part, target, case)]
        for (target, case), figure in figures.items()
    ]
    gateway = {case.label: figures["gateway", case.label].cpu_ms for case in _CASES}
    return "\n".join(
        [
            "",
            report.table(["case", *report.SPEED_HEAD, "in u"], rows),
            f"u: a raw ASGI request in the same round, {part['u_cpu_ms']:.4f} CPU-ms",
            report.STRANGERS_NOTE,
            f"added by the gateway at 1 connection: p50 {part['added_p50_ms']:.2f} ms, "
            f"p99 {part['added_p99_ms']:.2f} ms",
            "\nCPU-ms a request by process",
            report.by_process(gateway, digits=3),
            "\nresident memory in MiB after the load, shared pages shared out",
            report.by_process({"MiB": memory}, digits=1),
        ]
    )


def _units(part: dict[str, Any], target: str, case: str) -> str:
    if target == "gateway":
        return f"{part['cpu_in_u'][case]:.1f}"
    return "1.0" if target == "raw ASGI" else ""
