"""What a topic has of each idempotent producer, so that a batch that is sent again is not appended again.

Every member executes this alike: it is part of the service's state. Sequences count a producer's records in one topic
from 0 on, and begin anew after 2**31 - 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ordo.gateway.kafka.service.orders import SEQUENCES, KafkaError

RUNS_MAX = 8
"""So many stretches of a producer's records are remembered, to tell a repeated batch its numbers."""
PRODUCERS_MAX = 16_384
"""Pairs of producer and topic. The one that was silent longest goes, and what it sends is refused from then on."""


class Run(NamedTuple):
    """Records with consecutive sequences that have consecutive numbers in the topic."""

    sequence: int
    length: int
    number: int


class Verdict(NamedTuple):
    """What is to be done with records."""

    error: int
    number: int
    """The first record's, where it was appended before; -1 if it was not, or that is not remembered."""
    skipped: int
    """So many of the records, from the first one on, were appended before."""


class Producer:
    """One producer in one topic."""

    def __init__(self, epoch: int, runs: list[Run] | None = None) -> None:
        self.epoch = epoch
        self.runs: list[Run] = runs or []

    @property
    def next_sequence(self) -> int:
        if not self.runs:
            return 0
        last = self.runs[-1]
        return (last.sequence + last.length) % SEQUENCES

    def judge(self, sequence: int, count: int) -> Verdict:
        """Decide about records of this epoch."""
        ahead = (sequence - self.next_sequence) % SEQUENCES
        if ahead == 0:
            return Verdict(KafkaError.NONE, -1, 0)
        if ahead < SEQUENCES // 2:
            return Verdict(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, -1, 0)
        number = self._number_of(sequence)
        skipped = min(SEQUENCES - ahead, count)
        if number < 0 and skipped == count:
            return Verdict(KafkaError.DUPLICATE_SEQUENCE_NUMBER, -1, count)
        return Verdict(KafkaError.NONE, number, skipped)

    def _number_of(self, sequence: int) -> int:
        for run in reversed(self.runs):  # all of them together may be longer than SEQUENCES
            within = (sequence - run.sequence) % SEQUENCES
            if within < run.length:
                return run.number + within if run.number > 0 else -1
        return -1

    def append(self, sequence: int, count: int, number: int) -> None:
        """Note that records were appended, the first one as `number`."""
        last = self.runs[-1] if self.runs else None
        if last is not None and last.number + last.length == number and last.length + count < SEQUENCES // 4:
            self.runs[-1] = last._replace(length=last.length + count)
            return
        self.runs.append(Run(sequence, count, number))
        del self.runs[:-RUNS_MAX]


class Producers:
    """All of them, the one that appended last at the end."""

    def __init__(self) -> None:
        self._producers: dict[tuple[int, str], Producer] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def judge(self, producer_id: int, epoch: int, topic: str, sequence: int, count: int) -> Verdict:
        """Decide about records, without a change."""
        known = self._producers.get((producer_id, topic))
        if known is None or epoch > known.epoch:
            if sequence == 0:
                return Verdict(KafkaError.NONE, -1, 0)
            unknown = KafkaError.UNKNOWN_PRODUCER_ID if known is None else KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER
            return Verdict(unknown, -1, 0)
        if epoch < known.epoch:
            return Verdict(KafkaError.INVALID_PRODUCER_EPOCH, -1, 0)
        return known.judge(sequence, count)

    def append(self, producer_id: int, epoch: int, topic: str, sequence: int, count: int, number: int) -> None:
        """Note what was appended, after `judge`."""
        key = producer_id, topic
        known = self._producers.pop(key, None)
        if known is None or epoch > known.epoch:
            known = Producer(epoch)
        known.append(sequence, count, number)
        self._producers[key] = known
        if len(self._producers) > PRODUCERS_MAX:
            del self._producers[next(iter(self._producers))]

    def state(self) -> Iterator[tuple[int, str, int, list[Run]]]:
        """Give what a snapshot needs, in order."""
        for (producer_id, topic), one in self._producers.items():
            yield producer_id, topic, one.epoch, one.runs

    def restore(self, producer_id: int, topic: str, epoch: int, runs: list[Run]) -> None:
        """Add one from a snapshot."""
        self._producers[producer_id, topic] = Producer(epoch, runs)
