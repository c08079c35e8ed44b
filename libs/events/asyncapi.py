"""A service's AsyncAPI 3.0 document: the topics it writes and reads, with the schema of every event on them.

Called by libs.kafka.bus, which knows what its service reads; served on the ops port, kept in proto/asyncapi.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from libs.events.base import EventData
from libs.events.catalogue import CARRIED, event_schema
from libs.events.topics import ALL, Topic


def document(service: str, reads: Mapping[Topic, Sequence[type[EventData]]]) -> dict[str, Any]:
    """The document of a service that reads these event types of these topics and writes the topics it owns."""
    writes = {topic: CARRIED.get(topic, ()) for topic in ALL if topic.owner == service}
    messages = {model.TYPE: model for models in (*writes.values(), *reads.values()) for model in models}
    return {
        "asyncapi": "3.0.0",
        "info": {"title": f"kenari {service}", "version": "1"},
        "defaultContentType": "application/json",
        "channels": {
            topic.name: _channel(topic, [*writes.get(topic, ()), *reads.get(topic, ())])
            for topic in (*writes, *(topic for topic in reads if topic not in writes))
        },
        "operations": {
            **{f"send {topic.name}": _operation("send", topic, models) for topic, models in writes.items()},
            **{f"receive {topic.name}": _operation("receive", topic, models) for topic, models in reads.items()},
        },
        "components": {"messages": {name: _message(model) for name, model in sorted(messages.items())}},
    }


def _channel(topic: Topic, models: Iterable[type[EventData]]) -> dict[str, Any]:
    return {
        "address": topic.name,
        "description": topic.about,
        "messages": {model.TYPE: {"$ref": f"#/components/messages/{model.TYPE}"} for model in models},
        "bindings": {
            "kafka": {
                "partitions": topic.partitions,
                "topicConfiguration": {"cleanup.policy": [str(topic.keep)], "retention.ms": topic.retention_ms},
            }
        },
        "x-key": topic.key,
        "x-owner": topic.owner,
    }


def _operation(action: str, topic: Topic, models: Iterable[type[EventData]]) -> dict[str, Any]:
    return {
        "action": action,
        "channel": {"$ref": f"#/channels/{topic.name}"},
        "messages": [{"$ref": f"#/channels/{topic.name}/messages/{model.TYPE}"} for model in models],
    }


def _message(model: type[EventData]) -> dict[str, Any]:
    payload = event_schema(model)
    # References inside a schema count from the document's root, so shared parts are written out.
    definitions = payload.pop("$defs", {})
    return {"name": model.TYPE, "summary": (model.__doc__ or "").strip(), "payload": _inlined(payload, definitions)}


def _inlined(node: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(node, dict):
        if "$ref" in node:
            return _inlined(definitions[node["$ref"].rsplit("/", 1)[1]], definitions)
        return {key: _inlined(value, definitions) for key, value in node.items()}
    if isinstance(node, list):
        return [_inlined(value, definitions) for value in node]
    return node
