"""Messages that services send into the log through their consensus module (cluster-consensus.md §14)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from ordo.runtime.errors import ClusterError

POLL_LIMIT = 20
_SIGN = 1 << 63


def first_log_session_id(service_id: int) -> int:
    """Return the id below the first message of a service, as a signed 64-bit number (negative)."""
    return (service_id << 56 | _SIGN) - (1 << 64)


class PendingServiceMessages:
    """The messages of one service that the log lacks.

    Every member numbers the messages of its deterministic service alike; the leader logs each number once.

    `log_session_id` is the number of the last one executed from the log. What this leadership has appended and not
    seen executed is only counted, and forgotten with the leadership, so that the next leader appends it again.
    """

    def __init__(self, service_id: int = 0) -> None:
        self.service_id = service_id
        self.next_session_id = first_log_session_id(service_id) + 1
        self.log_session_id = first_log_session_id(service_id)
        self._pending: deque[tuple[int, bytes]] = deque()
        self._appended = 0

    def __len__(self) -> int:
        return len(self._pending)

    def enqueue(self, payload: bytes) -> None:
        """Queue a message from the service; drop it when the log has it already."""
        session_id = self.next_session_id
        self.next_session_id += 1
        if session_id > self.log_session_id:
            self._pending.append((session_id, payload))

    def append_pending(self, append: Callable[[int, bytes], bool]) -> int:
        """Give up to POLL_LIMIT messages to `append(session_id, payload)`, until it returns False.

        For the leader only.
        """
        count = 0
        while self._appended < len(self._pending) and count < POLL_LIMIT:
            session_id, payload = self._pending[self._appended]
            if not append(session_id, payload):
                break
            self._appended += 1
            count += 1
        return count

    def execute(self, session_id: int) -> None:
        """Note that a service message was executed from the log."""
        self.log_session_id = max(self.log_session_id, session_id)
        while self._pending and self._pending[0][0] <= session_id:
            self._pending.popleft()
            self._appended = max(0, self._appended - 1)

    def lose_leadership(self) -> None:
        self._appended = 0

    def snapshot(self) -> Iterator[tuple[int, bytes]]:
        """Return session id and payload of each message that is not in the log yet."""
        return iter(list(self._pending))

    def restore(self, next_session_id: int, log_session_id: int, pending: list[tuple[int, bytes]]) -> None:
        """Restore the queue. Raises ClusterError unless the queued ids are consecutive from `log_session_id` + 1."""
        ids = [session_id for session_id, _ in pending]
        if ids != list(range(log_session_id + 1, next_session_id)):
            raise ClusterError(
                f"snapshot: pending service messages are not consecutive: {log_session_id=} {next_session_id=} {ids=}"
            )
        self.next_session_id = next_session_id
        self.log_session_id = log_session_id
        self._pending = deque(pending)
        self._appended = 0


def service_of(session_id: int) -> int:
    """Return the service that a message with this (negative) session id is from."""
    return session_id >> 56 & 0x7F


class ServiceMessages:
    """The messages of all services of a member, by service id."""

    def __init__(self, service_count: int) -> None:
        self._services = [PendingServiceMessages(service_id) for service_id in range(service_count)]

    def __getitem__(self, service_id: int) -> PendingServiceMessages:
        return self._services[service_id]

    def __iter__(self) -> Iterator[PendingServiceMessages]:
        return iter(self._services)

    def append_pending(self, append: Callable[[int, bytes], bool]) -> int:
        """Append the pending messages of each service; for the leader only."""
        return sum(one.append_pending(append) for one in self._services)

    def execute(self, session_id: int) -> None:
        """Note a service message executed from the log. Raises ClusterError if this member runs no such service."""
        service_id = service_of(session_id)
        if service_id >= len(self._services):
            raise ClusterError(
                f"the log has a message of service {service_id}, and this member runs {len(self._services)} service(s):"
                " all members run the same ones ([[services]])"
            )
        self._services[service_id].execute(session_id)

    def lose_leadership(self) -> None:
        for one in self._services:
            one.lose_leadership()
