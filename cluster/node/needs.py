"""What a node needs of its machine, computed from its configuration: descriptors and shared memory.

A node looks before it starts. What cannot be had is one line then; what clients want beyond it is refused to them
later. Neither ends a node that runs: sockets leave descriptors to files, and pages are had before they are used.
"""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING, Any

from cluster.module.config import TERM_LENGTH_MIN
from cluster.node.observation import free_bytes
from runtime.errors import ConfigurationError, StorageFullError

if TYPE_CHECKING:
    from cluster.node.config import NodeConfig

MEBIBYTE = 1024 * 1024
FILES_OF_NODE = 20
"""Segment files, LMDB, locks, the clocks and wakers of the driver, standard streams."""
FILES_OF_REPLAY = 2
SOCKETS_OF_MEMBER = 4
SOCKETS_OF_NODE = 8
SESSIONS_MIN = 4
MEMORY_OF_NODE_BYTES = 8 * MEBIBYTE
"""Queues, counters and the small streams of a node with few clients."""
LOG_STREAMS = 2
"""Of the log a node has one that it sends, or receives, and one more while leaders change."""


def file_count(limit: int) -> int:
    """How many files a limit of the system allows; where it has none, more than any node opens."""
    return limit if limit != resource.RLIM_INFINITY else 1 << 30


def raise_open_files() -> int:
    """Raises this process's limit of open files, and that of its children, as far as it may. Returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return file_count(hard)


def files_reserved(config: NodeConfig) -> int:
    """Descriptors that sockets must leave to files."""
    return FILES_OF_NODE + FILES_OF_REPLAY * config.node.max_replays


def sessions_that_fit(config: NodeConfig, files_max: int) -> int:
    """How many clients can be answered at a time: each takes a socket. Raises ConfigurationError if that is nobody."""
    own = files_reserved(config) + SOCKETS_OF_NODE + SOCKETS_OF_MEMBER * len(config.member_list)
    if files_max < own + SESSIONS_MIN:
        raise ConfigurationError(
            f"the limit of open files is {files_max}, and this node needs {own} and one for each session: raise it to "
            f"{own + config.cluster.sessions_max} for max_sessions = {config.cluster.sessions_max} (LimitNOFILE in a "
            "unit, ulimit -n, docker run --ulimit nofile)"
        )
    return min(config.cluster.sessions_max, files_max - own)


def memory_needed_bytes(term_length_bytes: int) -> int:
    """Shared memory without which a node cannot hold its log."""
    return MEMORY_OF_NODE_BYTES + 3 * term_length_bytes


def memory_used_bytes(config: NodeConfig) -> int:
    """Shared memory that a node uses with as many readers of the log as it lets in."""
    return memory_needed_bytes((LOG_STREAMS + config.node.max_replays) * config.cluster.log_term_length_bytes)


def check_memory(config: NodeConfig) -> None:
    """Raises StorageFullError when the log does not fit into what is free of shared memory."""
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


def look_ahead(config: NodeConfig, log: Any) -> int:
    """Checks what the node needs before it starts, and says what it will not have. Returns `files_reserved`."""
    files_max = raise_open_files()
    sessions = sessions_that_fit(config, files_max)
    check_memory(config)
    if sessions < config.cluster.sessions_max:
        log.warning(
            "node.few-files",
            member_id=config.node.member_id,
            text=f"the limit of open files, {files_max}, is enough for {sessions} of max_sessions = "
            f"{config.cluster.sessions_max} sessions; further clients are refused",
        )
    return files_reserved(config)
