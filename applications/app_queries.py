"""Queries that the leader hands to one instance.

Answered out of its state, once it has executed enough of the log (docs/APPLICATIONS.md, Queries).
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.ordo_codecs import EMPTY_PAYLOAD_BYTES, QueryStatus

if TYPE_CHECKING:
    from ordo.cluster.wire import records

SERVES_INTERVAL_NS = 1_000_000_000
HOLD_NS = 2_000_000_000
"""A client that still wants its answer has asked again by then, and the leader another instance."""
WAITING_MAX = 1024
ANSWERS_PER_CYCLE = 64
"""Entries of the log are executed between them."""
NO_SESSION = (-1, -1)


class QuerySession(Protocol):
    """What queries need of the session that they come in."""

    questions: deque[records.GroupQuestion]

    @property
    def session_id(self) -> int: ...
    @property
    def leadership_term_id(self) -> int: ...
    @property
    def message_bytes_max(self) -> int: ...
    def offer_unlogged(self, message: bytes) -> bool:
        """Return whether the leader's ingress has taken it."""


class _Waiting(NamedTuple):
    """A question; the order of their positions is that of their answers."""

    read_position: int
    order: int
    deadline_ns: int
    question: records.GroupQuestion


class AppQueries:
    """The queries of one instance, at most WAITING_MAX at a time."""

    def __init__(self, group: str, ask: Callable[[bytes], tuple[QueryStatus, bytes]]) -> None:
        """`ask` calls the service."""
        self._group = group.encode()
        self._ask = ask
        self._waiting: list[_Waiting] = []
        self._order = count()
        self._told = NO_SESSION
        self._due_ns = 0

    def work(self, session: QuerySession, position: int, now_ns: int, *, is_up_to_date: bool) -> int:
        """Receive questions, and answer those whose position the service has reached.

        `position`: up to here the log was executed. Returns the number of answers.
        """
        if is_up_to_date:
            self._tell(session, now_ns)
        if len(self._waiting) >= WAITING_MAX:
            self._forget_expired(now_ns)
        while session.questions and len(self._waiting) < WAITING_MAX:
            question = session.questions.popleft()
            one = _Waiting(question.read_position, next(self._order), now_ns + HOLD_NS, question)
            heapq.heappush(self._waiting, one)
        answered = 0
        while self._waiting and self._waiting[0].read_position <= position and answered < ANSWERS_PER_CYCLE:
            if not self._answer(session, self._waiting[0], position, now_ns):
                break
            heapq.heappop(self._waiting)
            answered += 1
        return answered

    def _forget_expired(self, now_ns: int) -> None:
        self._waiting = [one for one in self._waiting if one.deadline_ns >= now_ns]
        heapq.heapify(self._waiting)

    def _tell(self, session: QuerySession, now_ns: int) -> None:
        """Tell the leader that this instance answers, at once in a new session or term."""
        where = session.session_id, session.leadership_term_id
        if session.session_id < 0 or (where == self._told and now_ns < self._due_ns):
            return
        message = ordo_codecs.GROUP_SERVES.encode(cluster_session_id=session.session_id, group=self._group)
        if session.offer_unlogged(message):
            self._told, self._due_ns = where, now_ns + SERVES_INTERVAL_NS

    def _answer(self, session: QuerySession, waiting: _Waiting, position: int, now_ns: int) -> bool:
        """Answer a question if possible.

        Return whether it is done with; questions of an earlier session are dropped.
        """
        question = waiting.question
        if question.cluster_session_id != session.session_id or now_ns > waiting.deadline_ns:
            return True
        if session.message_bytes_max == 0:
            return False
        status, payload = self._ask(question.payload)
        payload_bytes_max = session.message_bytes_max - ordo_codecs.GROUP_ANSWER.block_length - EMPTY_PAYLOAD_BYTES
        if len(payload) > payload_bytes_max:
            text = f"answer of {len(payload)} bytes: at most {payload_bytes_max} go to the cluster"
            status, payload = QueryStatus.ERROR, text.encode()
        return session.offer_unlogged(
            ordo_codecs.GROUP_ANSWER.encode(
                cluster_session_id=session.session_id,
                asker_session_id=question.asker_session_id,
                correlation_id=question.correlation_id,
                log_position=position,
                status=status,
                payload=payload,
            )
        )
