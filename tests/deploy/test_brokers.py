"""The Kafka servers keep what they promise, and the choice among them follows its order.
Run by `make test`; a machine without Java 17 and Maven has no Apache Kafka to test, except in CI, where it fails.
"""

import os
import threading
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from deploy.local import KafkaServer, StartFailed, TansuServer, ToolMissing, brokers, choose_broker
from deploy.local.kafka import DEFAULT_LIBS, java_missing, resolve_class_path
from deploy.local.ports import pick_free_port

needs_java = pytest.mark.skipif(
    java_missing() is not None and os.environ.get("CI") != "true", reason="no Java 17 or no Maven here"
)


async def _create_topic(address: str, topic: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=address)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, 3, 1, topic_configs={"cleanup.policy": "compact"})])
    finally:
        await admin.close()


async def _produce(address: str, topic: str, values: dict[str, str | None]) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=address, acks="all")
    await producer.start()
    try:
        for key, value in values.items():
            await producer.send_and_wait(topic, None if value is None else value.encode(), key=key.encode())
    finally:
        await producer.stop()


async def _read_all(address: str, topic: str) -> list[tuple[str, str | None]]:
    consumer = AIOKafkaConsumer(bootstrap_servers=address, enable_auto_commit=False, fetch_max_wait_ms=100)
    await consumer.start()
    try:
        partitions = [TopicPartition(topic, number) for number in range(3)]
        consumer.assign(partitions)
        await consumer.seek_to_beginning()
        ends = await consumer.end_offsets(partitions)
        read = []
        while any([await consumer.position(partition) < ends[partition] for partition in partitions]):
            for records in (await consumer.getmany(timeout_ms=200)).values():
                read += [(record.key.decode(), record.value and record.value.decode()) for record in records]
        return read
    finally:
        await consumer.stop()


@needs_java
async def test_kafka_keeps_acknowledged_records_through_kill_and_restart(directory: Path) -> None:
    # given acknowledged records
    server = KafkaServer(directory).start()
    try:
        address = server.address
        await _create_topic(address, "kept")
        await _produce(address, "kept", {"a": "1", "b": "2"})
        # when the broker is killed and started again
        server.kill()
        server.start()
        await _produce(address, "kept", {"a": None})
        # then they are there, at the same address, with what came after
        assert server.address == address
        assert sorted(await _read_all(address, "kept"), key=str) == [("a", "1"), ("a", None), ("b", "2")]
    finally:
        server.stop()


@needs_java
def test_kafka_jars_are_fetched_once_however_many_ask() -> None:
    # given the jars are there
    resolve_class_path()
    before = (DEFAULT_LIBS / "pom.sha256").stat().st_mtime_ns
    # when many ask at once
    askers = [threading.Thread(target=resolve_class_path) for _ in range(4)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join(30)
    # then nothing is fetched again
    assert (DEFAULT_LIBS / "pom.sha256").stat().st_mtime_ns == before


async def test_embedded_broker_serves_a_compacted_topic_with_tombstones(directory: Path) -> None:
    with TansuServer(directory) as server:
        await _create_topic(server.address, "table")
        await _produce(server.address, "table", {"a": "1", "b": "2"})
        await _produce(server.address, "table", {"a": None})
        assert sorted(await _read_all(server.address, "table"), key=str) == [("a", "1"), ("a", None), ("b", "2")]


async def test_embedded_broker_resumes_a_group_at_its_commit(directory: Path) -> None:
    with TansuServer(directory) as server:
        await _create_topic(server.address, "jobs")
        await _produce(server.address, "jobs", {"a": "1", "b": "2"})
        # given a group that committed after two records
        assert await _consume(server.address, 2) == ["1", "2"]
        # when one more comes and a new member joins
        await _produce(server.address, "jobs", {"c": "3"})
        # then it sees that one only
        assert await _consume(server.address, 1) == ["3"]


async def _consume(address: str, count: int) -> list[str]:
    consumer = AIOKafkaConsumer(
        "jobs",
        bootstrap_servers=address,
        group_id="workers",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=2000,
        heartbeat_interval_ms=300,
        fetch_max_wait_ms=100,
    )
    await consumer.start()
    try:
        seen: list[str] = []
        while len(seen) < count:
            for records in (await consumer.getmany(timeout_ms=500)).values():
                seen += [record.value.decode() for record in records]
        await consumer.commit()
        return sorted(seen)
    finally:
        await consumer.stop()


def _chosen(
    monkeypatch: pytest.MonkeyPatch, directory: Path, containers: str | None, java: str | None, ci: bool = False
) -> tuple[str, str]:
    monkeypatch.setattr(brokers, "containers_missing", lambda: containers)
    monkeypatch.setattr(brokers, "java_missing", lambda: java)
    monkeypatch.setattr(brokers, "resolve_class_path", lambda libs: None)
    said: list[str] = []
    broker = choose_broker(directory, {"CI": "true"} if ci else {}, said.append)
    assert len(said) == 1
    return broker.name, said[0]


def test_choice_follows_its_order_and_says_so(monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    assert _chosen(monkeypatch, directory, None, None) == (
        "Apache Kafka in a container",
        "Kafka for the tests: Apache Kafka in a container",
    )
    name, said = _chosen(monkeypatch, directory, "no daemon", None)
    assert (name, "no daemon" in said) == ("Apache Kafka", True)
    name, said = _chosen(monkeypatch, directory, "no daemon", "no java")
    assert (name, "no daemon; no java" in said) == ("Tansu", True)


def test_choice_in_ci_refuses_the_embedded_broker(monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    assert _chosen(monkeypatch, directory, "no daemon", None, ci=True)[0] == "Apache Kafka"
    with pytest.raises(ToolMissing, match="only Apache Kafka counts in CI"):
        _chosen(monkeypatch, directory, "no daemon", "no java", ci=True)


def test_address_from_the_environment_comes_first_and_must_answer(directory: Path) -> None:
    said: list[str] = []
    address = f"127.0.0.1:{pick_free_port()}"
    broker = choose_broker(directory, {"KENARI_TEST_KAFKA": address, "CI": "true"}, said.append)
    assert broker.address == address
    with pytest.raises(StartFailed, match=f"no Kafka answers at {address}"):
        broker.start()
    with pytest.raises(brokers.NotOurs):
        broker.kill()
