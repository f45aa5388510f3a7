"""The states of a client's session, and the events that its program receives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from ordo.cluster.wire.codecs import SESSION_HEADER_LENGTH_BYTES
from ordo.cluster.wire.sessions.message_limit import LENGTH_BYTES_MAX
from ordo.runtime.reporting.logging import tell

if TYPE_CHECKING:
    from ordo.cluster.wire.codecs import EventCode


class ClientState(Enum):
    """The stage of a client's session."""

    CONNECTING = auto()
    CONNECTED = auto()
    AWAIT_NEW_LEADER = auto()
    AWAIT_NEW_LEADER_CONNECTION = auto()
    CLOSED = auto()


class ClientEvent(NamedTuple):
    """An event in a client's session, for `on_event`.

    "waiting": a session takes long to open; without an `on_event` a line of the log says so. "opened" and "lost": a
    session, with its id; "leader": another member leads, and takes offers; "refused": no new session could be opened,
    and it will be tried again; "endpoints": the members have other endpoints than before;
    "limited": the cluster does not say when it drops an answer, and `detail` how long one may be;
    "full" and "room": the cluster takes no messages since its disks are full, and takes them again;
    "held" and "free": messages of this session wait for a quota of the cluster, and wait no more.
    `detail` is for people to read.
    """

    kind: str
    session_id: int
    detail: str


@dataclass(frozen=True)
class SessionCallbacks:
    """The program's callbacks for events of the protocol; `ClusterClient` says when each is called."""

    on_session_event: Callable[[EventCode, str], object]
    on_new_leader: Callable[[int, int, dict[int, str]], object]
    on_challenge: Callable[[bytes], bytes]


def answers_limited(session_id: int, egress_term_length_bytes: int) -> ClientEvent:
    """Return the `limited` event: the members silently drop answers above a length."""
    longest_bytes = min(egress_term_length_bytes // 8, LENGTH_BYTES_MAX) - SESSION_HEADER_LENGTH_BYTES
    detail = (
        f"the members, Aeron's or of an earlier release, drop messages of the service above {longest_bytes:,} bytes "
        f"without a word, an eighth of egress_term_length_bytes={egress_term_length_bytes}; set it higher where "
        "answers are longer"
    )
    return ClientEvent("limited", session_id, detail)


def tell_event(event: ClientEvent) -> None:
    """Warn about what a client waits for, and what it cannot receive, if there is no `on_event`.

    Somebody may watch a program that shows nothing.
    """
    if event.kind == "waiting":
        tell("warning", "client waits for the cluster:", why=event.detail)
    elif event.kind == "limited":
        tell("warning", "client may lose answers:", why=event.detail)
