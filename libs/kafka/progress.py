"""How far behind a consumer is: lag and age of the oldest record not handled, per partition.

Kept by subscription.py, read by its readiness check and by the metrics.
"""

from dataclasses import dataclass, field

from aiokafka import TopicPartition


@dataclass
class _Partition:
    lag: int = 0
    # Nothing older than this can be waiting: the last record handed out, or the moment it had caught up.
    not_before_ms: int = 0
    in_hand_ms: int | None = None


@dataclass
class Progress:
    """The partitions assigned now. Times in Unix milliseconds."""

    _partitions: dict[TopicPartition, _Partition] = field(default_factory=dict)

    def assigned(self, partitions: set[TopicPartition], now_ms: int) -> None:
        """Start anew with these partitions; what waits on them is not known yet."""
        self._partitions = {partition: _Partition(not_before_ms=now_ms) for partition in partitions}

    def taken(self, partition: TopicPartition, timestamp_ms: int) -> None:
        """A record is in the handler's hands (or is held because its dependency is away)."""
        if (state := self._partitions.get(partition)) is not None and state.in_hand_ms is None:
            state.in_hand_ms = timestamp_ms

    def finished(self, partition: TopicPartition, timestamp_ms: int) -> None:
        """Records up to one of this time are handled."""
        if (state := self._partitions.get(partition)) is not None:
            state.in_hand_ms = None
            state.not_before_ms = timestamp_ms

    def measured(self, partition: TopicPartition, lag: int, now_ms: int) -> None:
        """Note the lag as the client sees it."""
        if (state := self._partitions.get(partition)) is not None:
            state.lag = lag
            if lag == 0 and state.in_hand_ms is None:
                state.not_before_ms = now_ms

    def lags(self) -> dict[TopicPartition, int]:
        return {partition: state.lag for partition, state in self._partitions.items()}

    def oldest_s(self, now_ms: int) -> float:
        """Age in seconds of the oldest record not handled; 0 when there is none. Never too small, rarely exact."""
        waiting = [
            state.not_before_ms if state.in_hand_ms is None else state.in_hand_ms
            for state in self._partitions.values()
            if state.lag > 0 or state.in_hand_ms is not None
        ]
        return max(0.0, (now_ms - min(waiting)) / 1000) if waiting else 0.0
