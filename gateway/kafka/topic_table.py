"""Which topics there are, and where each of them ends: as the cluster said last, and as was read since."""

from __future__ import annotations

from ordo.gateway.kafka.log_topic import LOG_TOPIC
from ordo.gateway.kafka.service.orders import KafkaError, OrderKind, encode_order
from ordo.gateway.kafka.sessions import ClusterSession


class TopicTable:
    """The topics that the cluster's service keeps."""

    def __init__(self) -> None:
        self._ends: dict[str, int] = {}
        self._asked = self._answered = 0
        """So often the cluster was asked, and which time was the latest that it has answered."""
        self._noted: dict[str, int] = {}
        """How often it had been asked when an end was noted that it had not told."""

    def __contains__(self, topic: str) -> bool:
        return topic == LOG_TOPIC or topic in self._ends

    @property
    def names(self) -> list[str]:
        """All topics but the log, which a client must name: patterns of some clients take whatever is listed."""
        return list(self._ends)

    def end_of(self, topic: str) -> int:
        """Return the number that the topic's next message has, at least."""
        return self._ends.get(topic, 1)

    def note_end(self, topic: str, end: int) -> None:
        """Note that a topic goes up to this number."""
        if self._ends.get(topic, end) < end:
            self._ends[topic], self._noted[topic] = end, self._asked

    async def refresh(self, session: ClusterSession) -> None:
        """Ask the cluster, which answers as of now. Raises OrdoError.

        It is believed where topics are shorter than before, too: a standby that was promoted may lack their ends.
        """
        self._asked = turn = self._asked + 1
        found = await session.query(OrderKind.TOPICS)
        if turn < self._answered:
            return  # who asked later has the answer already
        self._answered = turn
        self._ends = {topic: self._newer_end(topic, number + 1, turn) for topic, number in found.items()}
        self._ends.pop(LOG_TOPIC, None)

    def _newer_end(self, topic: str, told: int, turn: int) -> int:
        """Return a topic's end as the cluster has told it, or one that was read after it was asked."""
        return max(told, self._ends.get(topic, 1)) if self._noted.get(topic, 0) >= turn else told

    async def has(self, session: ClusterSession, topic: str) -> bool:
        """Return whether there is such a topic; one that is not known yet is asked for. Raises OrdoError."""
        if topic not in self:
            await self.refresh(session)
        return topic in self

    async def create(self, session: ClusterSession, topic: str) -> int:
        """Create a topic, and return the error. Raises OrdoError."""
        if topic == LOG_TOPIC:
            return KafkaError.TOPIC_ALREADY_EXISTS
        answer = await session.order(encode_order(OrderKind.CREATE, topic=topic))
        if answer.error in (KafkaError.NONE, KafkaError.TOPIC_ALREADY_EXISTS):
            self._ends.setdefault(topic, 1)
        return answer.error
