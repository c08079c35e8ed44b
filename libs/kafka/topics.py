"""Makes the broker's topics what the registry says: ``python -m libs.kafka.topics apply|verify --bootstrap HOST:PORT``.

Run by deployments and the launcher before services start; tests use ``apply`` and ``verify`` directly.
"""

import argparse
import asyncio
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import IncompatibleBrokerVersion, KafkaError, TopicAlreadyExistsError, for_code

from libs.core.errors import ConfigError
from libs.events.topics import ALL, Keep, Topic
from libs.kafka.dead_letter import DEAD_SUFFIX, RETRY_SUFFIX

_HOUR_MS = 3_600_000


def config(topic: Topic) -> dict[str, str]:
    """The broker settings a topic needs, by the broker's names."""
    wanted = {"cleanup.policy": topic.keep.value}
    if topic.keep is Keep.TIME:
        wanted["retention.ms"] = str(topic.retention_ms)
    else:
        # Readers take a table from its start: heartbeats and old versions may not pile up.
        wanted |= {
            "segment.ms": str(_HOUR_MS),
            "min.cleanable.dirty.ratio": "0.1",
            "max.compaction.lag.ms": str(_HOUR_MS),
            "delete.retention.ms": str(24 * _HOUR_MS),
        }
    if topic.name.endswith((DEAD_SUFFIX, RETRY_SUFFIX)):
        # A dead letter is its record and a few headers: it has to fit where the record just did.
        wanted["max.message.bytes"] = "2097152"
    return wanted


async def apply(bootstrap: str, topics: Iterable[Topic] = ALL, *, replication: int = 1) -> list[str]:
    """Create what is missing and correct settings; return what was done, one line each.

    Raises ConfigError when a topic has another number of partitions: that is never changed in place.
    """
    wanted = list(topics)
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        present = await _partitions(admin)
        missing = [topic for topic in wanted if topic.name not in present]
        await _create(admin, missing, replication)
        _check_partitions(wanted, present)
        wrong = await _differences(admin, [topic for topic in wanted if topic.name in present])
        if wrong:
            await _correct(admin, wrong)
        return [f"created {topic.name}" for topic in missing] + [f"corrected {topic.name}" for topic in wrong]
    finally:
        await admin.close()


async def verify(bootstrap: str, topics: Iterable[Topic] = ALL) -> list[str]:
    """What differs from the registry, one line each; empty when nothing does."""
    wanted = list(topics)
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        present = await _partitions(admin)
        faults = [f"{topic.name} is missing" for topic in wanted if topic.name not in present]
        here = [topic for topic in wanted if topic.name in present]
        faults += _partition_faults(here, present)
        for topic, differing in (await _differences(admin, here)).items():
            faults += [f"{topic.name}: {name} is {found}, not {meant}" for name, (found, meant) in differing.items()]
        return faults
    finally:
        await admin.close()


async def _partitions(admin: AIOKafkaAdminClient) -> dict[str, int]:
    return {
        topic["topic"]: len(topic["partitions"]) for topic in await admin.describe_topics() if topic["error_code"] == 0
    }


async def _create(admin: AIOKafkaAdminClient, topics: Sequence[Topic], replication: int) -> None:
    if not topics:
        return
    answer = await admin.create_topics(
        [NewTopic(topic.name, topic.partitions, replication, topic_configs=config(topic)) for topic in topics]
    )
    for name, code, *rest in answer.topic_errors:
        error = for_code(code)
        if code != 0 and error is not TopicAlreadyExistsError:
            raise ConfigError(f"{name} cannot be created: {error.__name__} {rest[0] if rest else ''}".rstrip())


async def _correct(admin: AIOKafkaAdminClient, topics: Iterable[Topic]) -> None:
    resources = [ConfigResource(ConfigResourceType.TOPIC, topic.name, config(topic)) for topic in topics]
    try:
        await admin.alter_configs(resources)
    except IncompatibleBrokerVersion as error:
        names = ", ".join(topic.name for topic in topics)
        raise ConfigError(f"this broker cannot change the settings of a topic that exists: {names}") from error


def _partition_faults(topics: Iterable[Topic], present: dict[str, int]) -> list[str]:
    return [
        f"{topic.name} has {present[topic.name]} partitions, not {topic.partitions}: a new version has to take over"
        for topic in topics
        if present.get(topic.name, topic.partitions) != topic.partitions
    ]


def _check_partitions(topics: Iterable[Topic], present: dict[str, int]) -> None:
    if faults := _partition_faults(topics, present):
        raise ConfigError("\n".join(faults))


async def _differences(
    admin: AIOKafkaAdminClient, topics: Sequence[Topic]
) -> dict[Topic, dict[str, tuple[str | None, str]]]:
    """Settings that are not as meant: per topic and name, what the broker has and what it should have."""
    if not topics:
        return {}
    resources = [ConfigResource(ConfigResourceType.TOPIC, topic.name) for topic in topics]
    found: dict[str, dict[str, Any]] = {}
    for answer in await admin.describe_configs(resources):
        for _, _, _, name, entries in answer.resources:
            found[name] = {entry[0]: entry[1] for entry in entries}
    wrong: dict[Topic, dict[str, tuple[str | None, str]]] = {}
    for topic in topics:
        has = found.get(topic.name, {})
        differing = {name: (has.get(name), meant) for name, meant in config(topic).items() if has.get(name) != meant}
        if differing:
            wrong[topic] = differing
    return wrong


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m libs.kafka.topics", description=__doc__)
    parser.add_argument("command", choices=("apply", "verify"))
    parser.add_argument("--bootstrap", default="127.0.0.1:9092", help="host:port of the broker")
    parser.add_argument("--replication", type=int, default=1, help="copies of each new topic (default 1)")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.command == "apply":
            lines = asyncio.run(apply(chosen.bootstrap, replication=chosen.replication))
            print("\n".join(lines) or "nothing to do")
            return 0
        faults = asyncio.run(verify(chosen.bootstrap))
        print("\n".join(faults) or "as registered")
        return 1 if faults else 0
    except (ConfigError, KafkaError) as error:
        print(f"topics: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
