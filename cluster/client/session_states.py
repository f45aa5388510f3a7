"""The stages of a client's session, and the events that a program is told of."""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple


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
    "full" and "room": the cluster takes no messages since its disks are full, and takes them again.
    `detail` is for people to read.
    """

    kind: str
    session_id: int
    detail: str
