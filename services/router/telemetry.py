"""The router's metrics, declared before use. Upstream ids are provider/name of the key's variable, never a key.

Called by service.py, health.py and keeper.py; read by the dashboards.
"""

from libs.ops.metrics import CounterSpec, GaugeSpec

ROUTES = CounterSpec("kenari.router.routes", "Route questions answered, by outcome", labels=("outcome",))
PROBES = CounterSpec("kenari.router.probes", "Requests let through to find out about a paused upstream", ("upstream",))
PAUSES = CounterSpec("kenari.router.pauses", "Times an upstream was paused, by cause", labels=("upstream", "reason"))
UPSTREAM_STATE = GaugeSpec(
    "kenari.router.upstream.state", "0 takes requests, 1 waits for a probe, 2 paused", labels=("upstream",)
)
MODELS = GaugeSpec("kenari.router.models", "Models for sale")
CATALOG_VERSION = GaugeSpec("kenari.router.catalog.version", "Number of the last change of the catalogue")
DISCOVERY_FAILURES = CounterSpec(
    "kenari.router.discovery.failures", "Lists of models that could not be read", labels=("provider", "reason")
)
DISCOVERED = GaugeSpec("kenari.router.discovered.models", "Chat models a provider lists", labels=("provider",))

ALL = (ROUTES, PROBES, PAUSES, UPSTREAM_STATE, MODELS, CATALOG_VERSION, DISCOVERY_FAILURES, DISCOVERED)
