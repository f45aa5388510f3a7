"""Queries of applications.

The leader hands them to an instance of the group, and its answer to the client (docs/ARCHITECTURE.md, "Queries").

    client --GroupQuery--> leader, which knows the position (cluster.module.sessions.queries) --GroupQuestion--> an
    instance instance, when it has executed so far --GroupAnswer--> leader --QueryResponse--> client

Nothing of this is kept, and nothing outlives the term: instances say again that they answer, clients ask again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.ordo_codecs import QueryStatus
from ordo.cluster.wire.sessions.instance_codec import GROUP_BYTES_MAX
from ordo.runtime.security.authentication import Right

if TYPE_CHECKING:
    from ordo.cluster.module.sessions.sessions import ClusterSession, OpenSessions
    from ordo.cluster.wire import records
    from ordo.runtime.native.counters import Counter
    from ordo.transport.streams.image import Image

NULL_TERM = -1
SERVES_NS = 5_000_000_000
"""An instance that still answers has said so again by then."""
HOLD_NS = 2_000_000_000
"""A client that still wants its answer has asked again by then."""


class GroupHost(Protocol):
    """The member, leading or not."""

    member_id: int
    leadership_term_id: int

    @property
    def is_leader(self) -> bool: ...
    def on_invalid_request(self, detail: str) -> None:
        """Count a refused request, and log one line."""


class GroupQuery(NamedTuple):
    """A client's question to a group. The ids of session and question make it one query, however often it is sent."""

    session_id: int
    correlation_id: int
    min_position: int
    payload: bytes
    group: bytes

    @property
    def key(self) -> tuple[int, int]:
        return self.session_id, self.correlation_id


class Refusal(NamedTuple):
    """A reason why a query is not handed to an instance."""

    status: QueryStatus
    text: str


@dataclass(slots=True)
class _Asked:
    """A query under way: who may answer it, and the lowest position an answer may be of."""

    read_position: int
    deadline_ns: int
    session_ids: set[int] = field(default_factory=set)


class GroupQueries:
    """The instances that this term's leader knows to answer queries, and the queries they were handed."""

    def __init__(self, host: GroupHost, sessions: OpenSessions, commit_position: Counter) -> None:
        self._host = host
        self._commit_position = commit_position
        self._sessions = sessions
        self._term_id = NULL_TERM
        self._instances: dict[bytes, dict[int, int]] = {}
        """Keyed by group: when each session was last heard; the one that was asked last is the last."""
        self._group_of: dict[int, bytes] = {}
        self._asked: dict[tuple[int, int], _Asked] = {}

    def __len__(self) -> int:
        """Return the number of queries under way."""
        return len(self._asked)

    # What comes in

    def ask(self, query: GroupQuery, read_position: int, now_ns: int) -> Refusal | None:
        """Pass a query to the next instance in turn. A repeated query goes to another instance as well."""
        self._look_at_term()
        if self._term_id == NULL_TERM:
            return Refusal(QueryStatus.UNAVAILABLE, "this member does not lead: ask again")
        instance = self._next_instance(query.group, now_ns)
        if instance is None:
            name = query.group.decode(errors="replace")
            return Refusal(QueryStatus.UNAVAILABLE, f"no instance of group {name!r} answers queries at present")
        question = ordo_codecs.GROUP_QUESTION.encode(
            cluster_session_id=instance.id,
            asker_session_id=query.session_id,
            correlation_id=query.correlation_id,
            read_position=read_position,
            payload=query.payload,
        )
        if len(question) > _length_bytes_max(instance, len(question)):
            return Refusal(QueryStatus.ERROR, f"query of {len(query.payload)} bytes: longer than the instance takes")
        if not self._sessions.tell_now(instance, question):
            return Refusal(QueryStatus.BUSY, "the instance takes no queries now: ask again later")
        asked = self._asked.setdefault(query.key, _Asked(read_position, 0))
        asked.deadline_ns = now_ns + HOLD_NS
        asked.session_ids.add(instance.id)
        return None

    def on_serves(self, values: records.GroupServes, image: Image, now_ns: int) -> None:
        """Note an instance that answers queries of its group."""
        group = values.group
        instance = self._find_instance(values.cluster_session_id, image)
        if instance is None or not 1 <= len(group) <= GROUP_BYTES_MAX:
            return
        former = self._group_of.get(instance.id, group)
        if former != group:
            self._forget(instance.id)
        self._group_of[instance.id] = group
        self._instances.setdefault(group, {})[instance.id] = now_ns

    def on_answer(self, values: records.GroupAnswer, image: Image) -> None:
        """Take an instance's answer.

        It counts only from an instance that was asked and has executed enough, and not beyond the end of the log: its
        client would then wait for that position for ever.
        """
        instance = self._find_instance(values.cluster_session_id, image)
        key = values.asker_session_id, values.correlation_id
        asked = self._asked.get(key)
        if instance is None or asked is None or instance.id not in asked.session_ids:
            return
        is_possible = asked.read_position <= values.log_position <= self._commit_position.value
        if values.status not in set(QueryStatus) or not is_possible:
            self._host.on_invalid_request("ingress: an answer to a query that cannot be one")
            return
        del self._asked[key]
        asker = self._sessions.get(values.asker_session_id)
        if asker is not None:
            self._respond(asker, values)

    def work(self, now_ns: int) -> None:
        """Forget queries that are no longer repeated."""
        self._look_at_term()
        for key in [key for key, asked in self._asked.items() if asked.deadline_ns < now_ns]:
            del self._asked[key]

    # Inside

    def _look_at_term(self) -> None:
        """Forget everything at the beginning of another term."""
        term_id = self._host.leadership_term_id if self._host.is_leader else NULL_TERM
        if term_id != self._term_id:
            self._term_id = term_id
            self._instances.clear()
            self._group_of.clear()
            self._asked.clear()

    def _find_instance(self, session_id: int, image: Image) -> ClusterSession | None:
        """Return the session that speaks, if this is its own client's image and it may answer others.

        Nothing is counted for one that may not: it repeats its claim each second, whether anybody asks or not.
        """
        self._look_at_term()
        if self._term_id == NULL_TERM or not self._sessions.may_ask(session_id, image):
            return None
        return self._sessions.get(session_id) if self._sessions.may(session_id, Right.CONSUMERS) else None

    def _next_instance(self, group: bytes, now_ns: int) -> ClusterSession | None:
        instances = self._instances.get(group, {})
        for session_id, heard_ns in list(instances.items()):
            session = self._sessions.get(session_id)
            if session is None or session.close_reason is not None or heard_ns + SERVES_NS < now_ns:
                self._forget(session_id)
                continue
            instances[session_id] = instances.pop(session_id)
            return session
        return None

    def _forget(self, session_id: int) -> None:
        group = self._group_of.pop(session_id)
        instances = self._instances[group]
        del instances[session_id]
        if not instances:
            del self._instances[group]

    def _respond(self, asker: ClusterSession, values: records.GroupAnswer) -> None:
        fields = {
            "cluster_session_id": asker.id,
            "correlation_id": values.correlation_id,
            "log_position": values.log_position,
            "member_id": self._host.member_id,
        }
        response = ordo_codecs.QUERY_RESPONSE.encode(**fields, status=values.status, payload=values.payload)
        if len(response) > _length_bytes_max(asker, len(response)):
            text = f"answer of {len(values.payload)} bytes: longer than what goes to this client"
            response = ordo_codecs.QUERY_RESPONSE.encode(**fields, status=QueryStatus.ERROR, payload=text.encode())
        self._sessions.tell_now(asker, response)


def _length_bytes_max(session: ClusterSession, unknown: int) -> int:
    """Return the longest message to a session's client; `unknown` while there is no publication to it yet."""
    return unknown if session.publication is None else session.publication.max_message_length
