"""Generated files are what the sources say, examples are events, and no event type travels undocumented.
Run by pytest.
"""

import importlib
import json
import os
import pkgutil
from pathlib import Path

import pytest

import libs.events
from deploy.generate import contracts, proto
from deploy.generate.__main__ import GENERATORS
from deploy.generate.files import ROOT, Generated
from libs.events import topics
from libs.events.asyncapi import document
from libs.events.base import EventData, decode
from libs.events.catalogue import CARRIED, event_types
from libs.events.router import Media, Price, PriceChange, PriceLine, Revision

EXAMPLES = {model.TYPE: ROOT / "proto" / "events" / f"{model.TYPE}.example.json" for model in event_types()}


@pytest.mark.parametrize("name", GENERATORS)
def test_the_committed_files_are_fresh(name: str) -> None:
    assert GENERATORS[name]().stale() == [], f"run `make {name}`"


@pytest.mark.parametrize("model", event_types(), ids=lambda model: model.TYPE)
def test_the_example_of_an_event_parses(model: type[EventData]) -> None:
    event = decode(EXAMPLES[model.TYPE].read_bytes())
    assert event.type == model.TYPE
    data = model.model_validate(event.data, strict=False)
    assert data.model_dump(mode="json") == event.data


def test_every_event_type_is_on_a_topic() -> None:
    for module in pkgutil.iter_modules(libs.events.__path__):
        importlib.import_module(f"libs.events.{module.name}")
    parts_of_events: set[type[EventData]] = {Media, Price, PriceChange, PriceLine, Revision}
    declared = {model for model in EventData.__subclasses__() if model.__module__.startswith("libs.events")}
    assert declared - parts_of_events == set(event_types())


def test_every_topic_with_events_names_their_types() -> None:
    passed_on = {*topics.DEAD.values(), *topics.RETRY.values()}
    assert set(topics.ALL) - passed_on == set(CARRIED)


def test_an_event_is_said_by_the_owner_of_its_topic() -> None:
    for topic, models in CARRIED.items():
        for model in models:
            assert model.TYPE.split(".")[0] in (topic.owner, "kenari")


def test_every_service_is_documented_with_what_it_reads() -> None:
    edge = json.loads((ROOT / "proto" / "asyncapi" / "edge.json").read_text())
    assert "receive accounts.keys.v1" in edge["operations"]
    assert edge["channels"]["edge.usage.v1"]["bindings"]["kafka"]["partitions"] == topics.EDGE_USAGE.partitions
    payload = edge["components"]["messages"]["edge.usage_recorded.v1"]["payload"]
    assert "request_id" in payload["properties"]["data"]["properties"]


def test_references_inside_a_document_lead_somewhere() -> None:
    for owner in topics.SERVICES:
        made = document(owner, CARRIED)
        for operation in made["operations"].values():
            for reference in (operation["channel"], *operation["messages"]):
                node = made
                for step in reference["$ref"].removeprefix("#/").split("/"):
                    node = node[step]
                assert node


def test_a_missing_a_changed_and_a_foreign_file_are_stale(tmp_path: Path) -> None:
    made = Generated(("out",), (".json",), {"out/a.json": "1", "out/b.json": "2"})
    assert made.write(tmp_path) == ["out/a.json", "out/b.json"]
    assert made.stale(tmp_path) == []
    (tmp_path / "out" / "a.json").unlink()
    (tmp_path / "out" / "b.json").write_text("3")
    (tmp_path / "out" / "c.json").write_text("4")
    assert made.stale(tmp_path) == ["out/a.json", "out/b.json", "out/c.json"]
    made.write(tmp_path)
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["a.json", "b.json"]


def test_a_broken_proto_file_is_reported_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken.proto").write_text('syntax = "proto3";\nmessage {\n')
    monkeypatch.setattr(proto, "_SOURCES", tmp_path)
    with pytest.raises(proto.CompileFailed, match=r"broken\.proto:2"):
        proto.generate()


def test_building_the_services_leaves_the_environment_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KENARI_KEY_HASH_SECRET", "mine")
    contracts.generate()
    assert os.environ["KENARI_KEY_HASH_SECRET"] == "mine"
