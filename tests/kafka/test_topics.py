"""The topics command makes a broker what the registry says, and refuses what cannot be changed in place."""

from dataclasses import replace

import pytest

from libs.core.errors import ConfigError
from libs.events.topics import ALL
from libs.kafka import topics
from tests.kafka.conftest import Corner


async def test_all_registered_topics_can_be_applied_twice_and_verified(kafka: str) -> None:
    await topics.apply(kafka)
    assert await topics.apply(kafka) == []
    assert await topics.verify(kafka) == []


async def test_a_changed_setting_is_found_and_corrected(corner: Corner) -> None:
    longer = replace(corner.topic, retention_ms=7_200_000)
    assert await topics.verify(corner.bootstrap, [longer]) == [f"{longer.name}: retention.ms is 3600000, not 7200000"]
    try:
        assert await topics.apply(corner.bootstrap, [longer]) == [f"corrected {longer.name}"]
    except ConfigError as error:
        # The embedded broker cannot, and says so.
        assert str(error) == f"this broker cannot change the settings of a topic that exists: {longer.name}"
        return
    assert await topics.verify(corner.bootstrap, [longer]) == []


async def test_another_number_of_partitions_is_refused(corner: Corner) -> None:
    wider = replace(corner.topic, partitions=4)
    with pytest.raises(ConfigError, match="has 3 partitions, not 4"):
        await topics.apply(corner.bootstrap, [wider])


async def test_a_missing_topic_is_named(corner: Corner) -> None:
    missing = replace(corner.topic, name=f"{corner.service}.missing.v1")
    assert await topics.verify(corner.bootstrap, [missing]) == [f"{missing.name} is missing"]


def test_names_say_owner_plural_and_version() -> None:
    for topic in ALL:
        owner, _, version = topic.name.split(".")
        assert (owner, version) == (topic.owner, "v1")
    assert len({topic.name for topic in ALL}) == len(ALL)


def test_the_command_tells_a_broker_that_is_away(capsys: pytest.CaptureFixture[str]) -> None:
    assert topics.main(["verify", "--bootstrap", "127.0.0.1:1"]) == 1
    assert "topics:" in capsys.readouterr().err
