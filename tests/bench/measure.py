"""Rounds of load over several targets and the medians of them.
Called by tests.bench.run and tests.bench.comparison with what is to be measured, in order.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from tests.bench import load
from tests.bench.load import Case, Sample, Target

Step = tuple[Target, Case]
Samples = dict[tuple[str, str], list[Sample]]

# Above this share of the machine taken by others a figure is marked, and measured once more.
MARKED_STRANGERS = 0.1


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure: `rounds` over all steps, `seconds` of load a step, a warm-up before the first.

    repeat_disturbed: take a step once more when others were at work on the machine.
    """

    rounds: int
    seconds: int
    warm_up_s: int
    repeat_disturbed: bool = True

    def expected_s(self, steps: int) -> float:
        """About how long `steps` steps take on a machine of their own, pauses included; at most twice as long."""
        return self.rounds * steps * (self.seconds + 0.6)


@dataclass(frozen=True, slots=True)
class Figures:
    """Medians over the rounds, but `failed` is the sum and `strangers` the worst share seen in a round."""

    per_second: float
    p50_ms: float
    p99_ms: float
    failed: int
    cpu_ms: Mapping[str, float]
    cpu_ms_total: float
    strangers: float

    def as_json(self) -> dict[str, Any]:
        return {
            "per_second": round(self.per_second, 1),
            "p50_ms": round(self.p50_ms, 3),
            "p99_ms": round(self.p99_ms, 3),
            "failed": self.failed,
            "cpu_ms_per_request": {name: round(ms, 4) for name, ms in self.cpu_ms.items()},
            "cpu_ms_per_request_total": round(self.cpu_ms_total, 4),
            "strangers_share": round(self.strangers, 3),
        }


def run_rounds(
    steps: Sequence[Step],
    effort: Effort,
    provider: Mapping[str, Sequence[int]],
    loader: Callable[[Target, Case, int, Mapping[str, Sequence[int]]], Sample] = load.run_load,
) -> Samples:
    """Take every step once a round, so that a slow minute of the machine hits all alike. Progress: stderr.

    Returns the samples by (target name, case label), one a round, in order.
    """
    for target in {step[0].name: step[0] for step in steps}.values():
        loader(target, Case("warm-up", 8), effort.warm_up_s, provider)
    samples: Samples = {}
    for number in range(1, effort.rounds + 1):
        for target, case in steps:
            sample = loader(target, case, effort.seconds, provider)
            # A failed request is never dropped that way.
            if effort.repeat_disturbed and sample.strangers > MARKED_STRANGERS and not sample.outcome.failed:
                again = loader(target, case, effort.seconds, provider)
                sample = min(sample, again, key=lambda one: (-one.outcome.failed, one.strangers))
            samples.setdefault((target.name, case.label), []).append(sample)
            _say(f"round {number}/{effort.rounds}", target, case, sample)
    return samples


def summarise(samples: Sequence[Sample]) -> Figures:
    """Medians of one case of one target."""
    names = samples[0].cpu_ms.keys()
    return Figures(
        per_second=median(sample.outcome.per_second for sample in samples),
        p50_ms=median(sample.outcome.p50_ms for sample in samples),
        p99_ms=median(sample.outcome.p99_ms for sample in samples),
        failed=sum(sample.outcome.failed for sample in samples),
        cpu_ms={name: median(sample.cpu_ms[name] for sample in samples) for name in names},
        cpu_ms_total=median(sample.cpu_ms_total for sample in samples),
        strangers=max(sample.strangers for sample in samples),
    )


def cost_in_units(samples: Sequence[Sample], yardstick: Sequence[Sample]) -> float:
    """Median over the rounds of CPU a request divided by that of a raw ASGI request in the same round."""
    pairs = zip(samples, yardstick, strict=True)
    return median(sample.cpu_ms_total / unit.cpu_ms_total for sample, unit in pairs)


def _say(where: str, target: Target, case: Case, sample: Sample) -> None:
    outcome = sample.outcome
    print(
        f"  {where}  {target.name:<9} {case.label:<16} {outcome.per_second:9.1f}/s  p50 {outcome.p50_ms:8.2f} ms  "
        f"p99 {outcome.p99_ms:8.2f} ms  {sample.cpu_ms_total:7.3f} CPU-ms  failed {outcome.failed}",
        file=sys.stderr,
        flush=True,
    )
