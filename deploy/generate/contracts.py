"""proto/events: schema and example of every event type; proto/asyncapi: what each service writes and reads.
Called by `python -m deploy.generate contracts`.
"""

import asyncio
import importlib
import json
import os
from typing import Any
from unittest import mock

from deploy.generate.examples import example
from deploy.generate.files import Generated
from libs.events.base import encode
from libs.events.catalogue import event_schema, event_types
from services.__main__ import NAMES

# Enough to build the services; nothing connects before it is started.
_SETTINGS = {
    **{f"{name.upper()}_DATABASE__DSN": f"postgresql://{name}@127.0.0.1/{name}" for name in NAMES},
    "KENARI_KEY_HASH_SECRET": "0" * 64,
    "LEDGER_DESCRIPTOR_SECRET": "0" * 64,
}


def generate() -> Generated:
    """Build all services without starting them and return the files."""
    texts: dict[str, str] = {}
    for model in event_types():
        texts[f"proto/events/{model.TYPE}.schema.json"] = _pretty(event_schema(model))
        texts[f"proto/events/{model.TYPE}.example.json"] = _pretty(json.loads(encode(example(model))))
    for name, document in asyncio.run(_documents()).items():
        texts[f"proto/asyncapi/{name}.json"] = _pretty(document)
    return Generated(("proto/events", "proto/asyncapi"), (".json",), texts)


async def _documents() -> dict[str, dict[str, Any]]:
    with mock.patch.dict(os.environ, _SETTINGS):
        apps = {name: importlib.import_module(f"services.{name}.app") for name in NAMES}
        return {name: app.build(app.read_settings()).asyncapi for name, app in apps.items()}


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
