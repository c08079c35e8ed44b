"""Which event types travel on which topic, and the JSON schema of each.

Read by libs.events.asyncapi and by the command that writes proto/events; a test holds it against the modules.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from libs.events import topics
from libs.events.accounts import KeyChanged, SettingsChanged
from libs.events.base import Envelope, EventData, Heartbeat
from libs.events.edge import AttemptFinished, RequestFinished, UsageRecorded
from libs.events.ledger import (
    AccountState,
    AlertRaised,
    Credited,
    HoldExpired,
    PlanChanged,
    Refunded,
    UsageSettled,
)
from libs.events.router import ModelPublished, UpstreamHealth
from libs.events.topics import Topic

# Dead letters and their retries are records of other topics as they were, so they have no types of their own.
CARRIED: Mapping[Topic, tuple[type[EventData], ...]] = {
    topics.EDGE_REQUESTS: (RequestFinished,),
    topics.EDGE_ATTEMPTS: (AttemptFinished,),
    topics.EDGE_USAGE: (UsageRecorded,),
    topics.LEDGER_ENTRIES: (UsageSettled, Credited, HoldExpired, Refunded, PlanChanged, AlertRaised),
    topics.LEDGER_STATES: (AccountState, Heartbeat),
    topics.ACCOUNTS_KEYS: (KeyChanged, Heartbeat),
    topics.ACCOUNTS_SETTINGS: (SettingsChanged, Heartbeat),
    topics.ROUTER_CATALOG: (ModelPublished, Heartbeat),
    topics.ROUTER_HEALTH: (UpstreamHealth, Heartbeat),
}


def event_types() -> list[type[EventData]]:
    """Every type once, by name."""
    return sorted({model for models in CARRIED.values() for model in models}, key=lambda model: model.TYPE)


def event_schema(model: type[EventData]) -> dict[str, Any]:
    """JSON schema of a whole event of this type: the envelope with the payload in ``data``."""
    data = model.model_json_schema()
    definitions = data.pop("$defs", {})
    fields = msgspec.structs.fields(Envelope)
    properties: dict[str, Any] = {field.name: {"type": "string"} for field in fields}
    properties["type"] = {"const": model.TYPE}
    properties["time"] = {"type": "string", "format": "date-time"}
    properties["data"] = data
    schema = {
        "title": model.TYPE,
        "type": "object",
        "properties": properties,
        "required": [field.name for field in fields],
    }
    return schema | ({"$defs": definitions} if definitions else {})
