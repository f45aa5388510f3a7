"""Which topics there are, and where each of them ends: as the cluster said last, and as was read since."""

from __future__ import annotations

from ordo.gateway.kafka.log_topic import LOG_TOPIC
from ordo.gateway.kafka.service.orders import KafkaError, OrderKind, encode_order
from ordo.gateway.kafka.sessions import ClusterSession


class TopicTable:
    """The topics that the cluster's service keeps."""

    def __init__(self) -> None:
        self._ends: dict[str, int] = {}

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
        if topic in self._ends:
            self._ends[topic] = max(self._ends[topic], end)

    async def refresh(self, session: ClusterSession) -> None:
        """Ask the cluster, which answers as of now. Raises OrdoError."""
        found = await session.query(OrderKind.TOPICS)
        self._ends = {
            topic: max(number + 1, self._ends.get(topic, 1)) for topic, number in found.items() if topic != LOG_TOPIC
        }

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
