"""`python -m tests.bench peers`: the gateway beside LiteLLM's proxy and Portkey's gateway, in one run.
Called by tests.bench.__main__, that is by `make bench-peers`.
"""

from contextlib import ExitStack
from pathlib import Path

from tests.bench import load, report
from tests.bench.gateway import start_gateway
from tests.bench.load import Target
from tests.bench.measure import Effort, Figures, run_rounds, summarise
from tests.bench.mock_provider import MODEL
from tests.bench.peers.servers import LiteLLM, Portkey
from tests.bench.peers.setup import Peers
from tests.bench.processes import memory_mib
from tests.bench.report import Goal
from tests.bench.run import PLAIN_1, PLAIN_16, PLAIN_64, STREAM_16, gateway_target
from tests.bench.servers import STREAM_CHUNKS, MockProvider

_CASES = (PLAIN_1, PLAIN_16, PLAIN_64, STREAM_16)


def compare(effort: Effort, work: Path, environments: Path, output: Path) -> int:
    """Measure, print, write the part "peers" of `output`; returns how many requests failed, of anybody.

    environments: where the peers are installed, once. Raises BenchError or a LocalServerError to show.
    """
    peers = Peers(environments)
    peers.install()
    with ExitStack() as stack:
        mock = stack.enter_context(MockProvider(work / "mock"))
        litellm = stack.enter_context(LiteLLM(work / "litellm", peers, mock.api_url))
        portkey = stack.enter_context(Portkey(work / "portkey", peers, mock.api_url))
        gateway = start_gateway(mock.api_url, MODEL)
        stack.callback(gateway.stop)
        targets = [gateway_target(gateway, gateway.paid_model), litellm.target(), portkey.target()]
        for target in targets:
            load.probe(target, STREAM_CHUNKS)
        steps = [(target, case) for case in _CASES for target in targets]
        print(f"measuring {len(steps)} cases, about {effort.expected_s(len(steps)):.0f} s", flush=True)
        samples = run_rounds(steps, effort, {"mock": [mock.pid]})
        memory = {target.name: sum(memory_mib(target.pids_by_name).values()) for target in targets}
    figures = {key: summarise(runs) for key, runs in samples.items()}
    ratios = _ratios(figures, targets)
    goals = [
        Goal("plain requests a second, in LiteLLM's", ratios["litellm"][PLAIN_64.label], 30, "at least"),
        Goal("plain requests a second, in Portkey's", ratios["portkey"][PLAIN_64.label], 3, "at least"),
        Goal("20-chunk streams a second, in LiteLLM's", ratios["litellm"][STREAM_16.label], 40, "at least"),
    ]
    print(_text(figures, ratios, memory, goals))
    report.write_part(
        output,
        "peers",
        {
            **report.conditions(effort),
            "versions": peers.versions(),
            "targets": {
                target.name: {case.label: figures[target.name, case.label].as_json() for case in _CASES}
                for target in targets
            },
            "gateway_divided_by": {name: {case: round(x, 2) for case, x in by.items()} for name, by in ratios.items()},
            "memory_mib": {name: round(mib, 1) for name, mib in memory.items()},
            "goals": [goal.as_json() for goal in goals],
            "samples": report.raw_samples(samples),
        },
    )
    return sum(figure.failed for figure in figures.values())


def _ratios(figures: dict[tuple[str, str], Figures], targets: list[Target]) -> dict[str, dict[str, float]]:
    """By peer and case: the gateway's requests a second divided by the peer's."""
    ours = targets[0].name
    return {
        peer.name: {
            case.label: figures[ours, case.label].per_second / max(figures[peer.name, case.label].per_second, 0.001)
            for case in _CASES
        }
        for peer in targets[1:]
    }


def _text(
    figures: dict[tuple[str, str], Figures],
    ratios: dict[str, dict[str, float]],
    memory: dict[str, float],
    goals: list[Goal],
) -> str:
    rows = [[f"{case} {target}", *report.speed_row(figure)] for (target, case), figure in figures.items()]
    ratio_rows = [[case.label, *(f"{by[case.label]:.1f}" for by in ratios.values())] for case in _CASES]
    return "\n".join(
        [
            "",
            report.table(["case", *report.SPEED_HEAD], rows),
            report.STRANGERS_NOTE,
            "\nthe gateway's requests a second divided by",
            report.table(["case", *ratios], ratio_rows),
            "\nresident memory in MiB (the gateway's with its stores)",
            report.table(["target", "MiB"], [[name, f"{mib:.0f}"] for name, mib in memory.items()]),
            "\ngoals",
            report.goals_text(goals),
        ]
    )
