"""What a node needs of its machine, computed from its configuration: descriptors and shared memory.

A node looks before it starts. What cannot be had is one line then; what clients want beyond it is refused to them
later. Neither ends a node that runs: sockets leave descriptors to files, and pages are had before they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ordo.archive.control.session import TERM_LENGTH_DEFAULT
from ordo.cluster.module.state.settings import TERM_LENGTH_MIN
from ordo.cluster.monitoring.observation import free_bytes
from ordo.cluster.wire.streams import FEED_TERM_LENGTH_BYTES
from ordo.runtime.errors import ConfigurationError, StorageFullError
from ordo.runtime.open_files import raise_open_files
from ordo.transport.streams.logbuffer import log_length_bytes

if TYPE_CHECKING:
    from ordo.cluster.settings.config import NodeSettings

MEBIBYTE = 1024 * 1024
FILES_OF_NODE = 20
"""Segment files, LMDB, locks, the clocks and wakers of the driver, standard streams."""
FILES_OF_READER = 2
"""The segment that is sent, and the next one while it changes."""
SOCKETS_OF_READER = 2
"""Sockets for the replay, and for the archive's answers."""
SUBSCRIBERS_SHARE = 4
"""Subscribers of feeds leave all but so much of what a small limit allows to sessions."""
SOCKETS_OF_MEMBER = 4
SOCKETS_OF_NODE = 8
SESSIONS_MIN = 4
MEMORY_OF_NODE_BYTES = 8 * MEBIBYTE
"""Queues, counters and the small streams of a node with few clients."""
MEMORY_OF_SERVICE_BYTES = MEBIBYTE
"""What one more service takes: its control streams."""
LOG_STREAMS = 2
"""A node has one stream of the log, which it sends or receives, and another while leaders change."""
CONTROL_BYTES_OF_READER = 2 * log_length_bytes(TERM_LENGTH_DEFAULT)
"""A reader's requests, and the archive's answers."""
MEMORY_OF_SUBSCRIBER_BYTES = CONTROL_BYTES_OF_READER + log_length_bytes(FEED_TERM_LENGTH_BYTES)


def files_reserved(config: NodeSettings) -> int:
    """Descriptors that sockets must leave to files, with as many readers as the configuration lets in."""
    return FILES_OF_NODE + FILES_OF_READER * (config.node.max_replays + config.node.subscribers_max)


def _files_without_clients(config: NodeSettings) -> int:
    """Return the open files of a node without clients and subscribers of feeds."""
    files = FILES_OF_NODE + FILES_OF_READER * config.node.max_replays
    return files + SOCKETS_OF_NODE + SOCKETS_OF_MEMBER * len(config.member_list)


def files_wanted(config: NodeSettings) -> int:
    """Return the descriptors that all clients need which the configuration allows; each session takes a socket."""
    readers = config.node.max_replays + config.node.subscribers_max
    beside = FILES_OF_READER * config.node.subscribers_max + SOCKETS_OF_READER * readers
    return _files_without_clients(config) + beside + config.cluster.sessions_max


class Clients(NamedTuple):
    """How many there is room for at a time."""

    sessions: int
    subscribers: int
    """Subscribers of feeds."""


def clients_that_fit(config: NodeSettings, files_max: int) -> Clients:
    """Return how many clients a limit of open files allows. Raises ConfigurationError if it allows none."""
    own = _files_without_clients(config)
    if files_max < own + SESSIONS_MIN:
        raise ConfigurationError(
            f"the limit of open files is {files_max}, and this node needs {own} and one for each session: raise it to "
            f"{files_wanted(config)} for max_sessions = {config.cluster.sessions_max} and max_subscribers = "
            f"{config.node.max_subscribers} (LimitNOFILE in a unit, ulimit -n, docker run --ulimit nofile)"
        )
    left, of_subscriber = files_max - own, FILES_OF_READER + SOCKETS_OF_READER
    subscribers = min(config.node.subscribers_max, left // SUBSCRIBERS_SHARE // of_subscriber)
    left -= of_subscriber * subscribers + SOCKETS_OF_READER * config.node.max_replays
    return Clients(min(config.cluster.sessions_max, max(left, SESSIONS_MIN)), subscribers)


def memory_needed_bytes(term_length_bytes: int) -> int:
    """Shared memory without which a node cannot hold its log."""
    return MEMORY_OF_NODE_BYTES + 3 * term_length_bytes


def memory_used_bytes(config: NodeSettings) -> int:
    """Shared memory that a node uses with as many readers of log and feeds as it lets in."""
    replays = config.node.max_replays
    log_bytes = memory_needed_bytes((LOG_STREAMS + replays) * config.cluster.log_term_length_bytes)
    log_bytes += MEMORY_OF_SERVICE_BYTES * max(0, len(config.services) - 1)
    return log_bytes + CONTROL_BYTES_OF_READER * replays + MEMORY_OF_SUBSCRIBER_BYTES * config.node.subscribers_max


def check_memory(config: NodeSettings) -> None:
    """Raise StorageFullError if the log does not fit into the free shared memory."""
    term_length_bytes, free = config.cluster.log_term_length_bytes, free_bytes(config.aeron_dir)
    needed = memory_needed_bytes(term_length_bytes)
    if not config.node.own_driver or free >= needed:
        return
    fitting = term_length_bytes
    while fitting >= TERM_LENGTH_MIN and memory_needed_bytes(fitting) > free:
        fitting //= 2
    smaller = ""
    if fitting >= TERM_LENGTH_MIN:
        smaller = f', or start a new cluster with log_term_length = "{_size(fitting)}" on all members'
    raise StorageFullError(
        f"not enough shared memory: {free // 1024} KiB free for {config.aeron_dir}, {needed // 1024} KiB are needed "
        f"with log_term_length = {_size(term_length_bytes)}: enlarge it (docker run --shm-size=256m, mount -o "
        f"remount,size=256m /dev/shm){smaller}"
    )


def _size(length_bytes: int) -> str:
    return f"{length_bytes // MEBIBYTE}m" if length_bytes >= MEBIBYTE else f"{length_bytes // 1024}k"


def look_ahead(config: NodeSettings, log: Any) -> NodeSettings:
    """Check the node's needs before it starts, and report what it will lack.

    Returns the configuration with as many sessions and subscribers as there are descriptors for: with more of them none
    would be left for a member that has to catch up.
    """
    files_max = raise_open_files()
    found = clients_that_fit(config, files_max)
    check_memory(config)
    if found < (config.cluster.sessions_max, config.node.subscribers_max):
        log.warning(
            "node.few-files",
            member_id=config.node.member_id,
            text=f"the limit of open files, {files_max}, is enough for {found.sessions} of max_sessions = "
            f"{config.cluster.sessions_max} sessions and {found.subscribers} of max_subscribers = "
            f"{config.node.max_subscribers} subscribers of feeds; further clients are refused: raise it to "
            f"{files_wanted(config)} to let all in",
        )
    return config.with_subscribers(found.subscribers).with_sessions(found.sessions)
