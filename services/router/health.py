"""What this process knows of each upstream's health: from attempts it reads itself and from other routers' events.

Called by service.py (asks), consumers.py (tells). All in memory; router.health.v1 keeps it over restarts.
"""

from dataclasses import dataclass, field

from libs.core.clock import Clock
from libs.events.router import UpstreamHealth
from libs.ops.telemetry import Telemetry
from services.router.domain import Health, HealthRules, Try, judge
from services.router.telemetry import PAUSES, PROBES, UPSTREAM_STATE

_TAKES_ALL = 0
_WAITS = 1
_PAUSED = 2


@dataclass(slots=True)
class _Known:
    health: Health = field(default_factory=Health)
    version: int = 0
    probing_until_ms: int = 0
    probe_id: str = ""


class HealthBook:
    """Health by upstream id. ``epoch`` changes whenever an earlier answer about any upstream may be wrong."""

    def __init__(self, rules: HealthRules, clock: Clock, telemetry: Telemetry) -> None:
        self.rules = rules
        self.epoch = 0
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._pauses = telemetry.metrics.counter(PAUSES)
        self._probes = telemetry.metrics.counter(PROBES)
        self._state = telemetry.metrics.gauge(UPSTREAM_STATE)

    def watch(self, upstream_id: str) -> None:
        """Show this upstream's state among the metrics from now on."""
        self._state.labels(upstream_id).set_function(lambda: self._level(upstream_id))

    def of(self, upstream_id: str) -> Health:
        """The health of an upstream; one never heard of takes requests."""
        known = self._known.get(upstream_id)
        return known.health if known else Health()

    def probing_until_ms(self, upstream_id: str) -> int:
        """When the probe under way runs out; 0 when there is none."""
        known = self._known.get(upstream_id)
        return known.probing_until_ms if known else 0

    def probe(self, upstream_id: str, request_id: str, now_ms: int) -> None:
        """Note that this request goes to a paused upstream; the next may follow when its time is over."""
        known = self._known[upstream_id]
        known.probing_until_ms = now_ms + self.rules.probe_ms
        known.probe_id = request_id
        self._probes.labels(upstream_id).inc()
        self.epoch += 1

    def tried(self, upstream_id: str, request_id: str, tried: Try) -> UpstreamHealth | None:
        """Take in one finished try; return what others have to know, None when nothing changed for them."""
        known = self._known.setdefault(upstream_id, _Known())
        if known.probe_id and known.probe_id == request_id:
            tried = tried._replace(probe=True)
        before, now_ms = known.health.until_ms, self._clock.now_ms()
        known.health = judge(known.health, tried, now_ms, self.rules)
        if known.health.until_ms == before:
            return None
        if known.health.until_ms:
            self._pauses.labels(upstream_id, known.health.reason).inc()
        # From the clock, so that a router that takes over or restarts goes on above what others know already.
        known.version = max(known.version + 1, now_ms)
        known.probing_until_ms, known.probe_id = 0, ""
        self.epoch += 1
        return UpstreamHealth(
            upstream_id=upstream_id,
            version=known.version,
            state="cooling" if known.health.until_ms else "healthy",
            until_ms=known.health.until_ms,
            reason=known.health.reason,
            pauses=known.health.pauses,
        )

    def learn(self, said: UpstreamHealth) -> None:
        """Take over what another router, or this one before its restart, found out."""
        known = self._known.setdefault(said.upstream_id, _Known())
        if said.version <= known.version:
            return
        known.version = said.version
        known.probing_until_ms, known.probe_id = 0, ""
        until = said.until_ms if said.state == "cooling" else 0
        healed = 0 if until else self._clock.now_ms()
        known.health = Health(until_ms=until, pauses=said.pauses, reason=said.reason, healed_ms=healed)
        self.epoch += 1

    def _level(self, upstream_id: str) -> int:
        until = self.of(upstream_id).until_ms
        if until == 0:
            return _TAKES_ALL
        return _PAUSED if until > self._clock.now_ms() else _WAITS
