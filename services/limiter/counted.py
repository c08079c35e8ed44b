"""What the limiter says of its answers in metrics. Called by service.py for every answer."""

from collections.abc import Iterable
from itertools import product

from libs.ops.telemetry import Telemetry
from services.limiter.domain import Allowed, Answer, Limit, Subject
from services.limiter.telemetry import ADMISSIONS, DONES, PACED, SHADOWED


class Counted:
    """Counts answers. Children are looked up once: by labels it costs as much as a question's way to the wire."""

    def __init__(self, telemetry: Telemetry) -> None:
        metrics = telemetry.metrics
        admissions = metrics.counter(ADMISSIONS)
        outcomes = ("allowed", *Limit)
        self._admissions = {
            (subject, outcome, local): admissions.labels(subject, outcome, "local" if local else "store")
            for subject, outcome, local in product(Subject, outcomes, (False, True))
        }
        dones = metrics.counter(DONES)
        self._dones = {success: dones.labels(str(success)) for success in (True, False)}
        self._paced = metrics.histogram(PACED)
        self._shadowed = metrics.counter(SHADOWED)

    def admission(self, subject: Subject, answer: Answer, *, local: bool) -> None:
        """An answer went out; ``local``: the store was not asked."""
        if not isinstance(answer, Allowed):
            self._admissions[subject, answer.limit, local].inc()
            return
        self._admissions[subject, "allowed", local].inc()
        if subject is Subject.FREE_CHAT:
            self._paced.observe(answer.wait_ms / 1000)

    def end(self, *, success: bool) -> None:
        """The end of a request was told."""
        self._dones[success].inc()

    def passed(self, limits: Iterable[Limit]) -> None:
        """These limits would have refused, were they not in shadow."""
        for limit in limits:
            self._shadowed.labels(limit).inc()
