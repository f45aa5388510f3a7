"""Mark files: who runs here, since when, is it alive, and what went wrong (cluster-consensus.md §17.3).

    0     message header (schema 110, template 200) and body; version is written last
    8192  distinct error log

The owner refreshes the activity timestamp every second and writes -1 when it ends.
"""

from __future__ import annotations

import os
import struct
from enum import IntEnum
from typing import Any

from ordo.runtime.errors import StorageInUseError
from ordo.runtime.native.memory import Memory, MemoryProvider
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.runtime.processes import is_process_alive
from ordo.runtime.sbe import Message

HEADER_LENGTH_BYTES = 8192
ERROR_LOG_LENGTH_BYTES = 1024 * 1024
LIVENESS_TIMEOUT_MS = 10_000
ACTIVITY_INTERVAL_NS = 1_000_000_000
VERSION = 0x000300
VERSION_OFFSET = 8
ACTIVITY_OFFSET = 16
PID_OFFSET = 32
NULL_ACTIVITY = -1

MARK_FILE_HEADER = Message(
    "MarkFileHeader",
    200,
    110,
    2,
    fields=[
        ("version", "i32"),
        ("component_type", "i32"),
        ("activity_timestamp", "i64"),
        ("start_timestamp", "i64"),
        ("pid", "i64"),
        ("candidate_term_id", "i64"),
        ("archive_stream_id", "i32"),
        ("service_stream_id", "i32"),
        ("consensus_module_stream_id", "i32"),
        ("ingress_stream_id", "i32"),
        ("member_id", "i32"),
        ("service_id", "i32"),
        ("header_length", "i32"),
        ("error_buffer_length", "i32"),
        ("cluster_id", "i32"),
    ],
    data=[
        ("aeron_directory", "ascii"),
        ("control_channel", "ascii"),
        ("ingress_channel", "ascii"),
        ("service_name", "ascii"),
        ("authenticator", "ascii"),
        ("services_cluster_dir", "ascii", 1),
    ],
    block_length=128,
)


class ComponentType(IntEnum):
    UNKNOWN = 0
    CONSENSUS_MODULE = 1
    CONTAINER = 2
    BACKUP = 3
    STANDBY = 4


MODULE_MARK_FILE_NAME = "cluster-mark.dat"


def container_mark_file_name(service_id: int) -> str:
    return f"cluster-mark-service-{service_id}.dat"


class MarkFile:
    """One open mark file of ours. `error_log_memory` is its error log's part of the file."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.error_log_memory = memory.slice(HEADER_LENGTH_BYTES, ERROR_LOG_LENGTH_BYTES)

    @classmethod
    def create(cls, provider: MemoryProvider, path: str, now_ms: int, **fields: object) -> MarkFile:
        """Create the file, or take over one whose owner is gone; `fields` are those of MARK_FILE_HEADER.

        All of it is allocated: an error log that took pages when it needs them would die of a full disk, unread.
        The error log of the last run is kept. Raises StorageInUseError while a live process owns the file.
        """
        length_bytes = HEADER_LENGTH_BYTES + ERROR_LOG_LENGTH_BYTES
        if provider.exists(path):
            memory = provider.open(path)
            if len(memory) != length_bytes:
                memory.close()
                provider.remove(path)
                memory = provider.create(path, length_bytes, False)
        else:
            memory = provider.create(path, length_bytes, False)
        _refuse_live(memory, path, now_ms)
        defaults = dict.fromkeys(("archive_stream_id", "service_stream_id", "consensus_module_stream_id"), NULL_VALUE)
        header = MARK_FILE_HEADER.encode(
            **{
                **defaults,
                "version": 0,
                "activity_timestamp": now_ms,
                "start_timestamp": now_ms,
                "pid": os.getpid(),
                "candidate_term_id": NULL_VALUE,
                "ingress_stream_id": NULL_VALUE,
                "header_length": HEADER_LENGTH_BYTES,
                "error_buffer_length": ERROR_LOG_LENGTH_BYTES,
                **fields,
            }
        )
        with memoryview(memory) as view:
            view[: len(header)] = header
            struct.pack_into("<i", view, VERSION_OFFSET, VERSION)
        return cls(memory)

    def set_activity(self, now_ms: int) -> None:
        with memoryview(self._memory) as view:
            struct.pack_into("<q", view, ACTIVITY_OFFSET, now_ms)

    def close(self) -> None:
        """Say that the owner ended in order."""
        if self._memory.closed:
            return
        self.set_activity(NULL_ACTIVITY)
        self.error_log_memory.close()
        self._memory.close()


def read_mark_file(provider: MemoryProvider, path: str) -> Any:
    """Return the MarkFileHeader of a file, for tools. Raises StorageMissingError or DecodeError."""
    memory = provider.open(path, False)
    try:
        return MARK_FILE_HEADER.decode(bytes(memoryview(memory)[:HEADER_LENGTH_BYTES]))
    finally:
        memory.close()


def _refuse_live(memory: Memory, path: str, now_ms: int) -> None:
    with memoryview(memory) as view:
        (version,) = struct.unpack_from("<i", view, VERSION_OFFSET)
        (activity_ms,) = struct.unpack_from("<q", view, ACTIVITY_OFFSET)
        (pid,) = struct.unpack_from("<q", view, PID_OFFSET)
    if (
        version != VERSION
        or now_ms - activity_ms >= LIVENESS_TIMEOUT_MS
        or pid == os.getpid()
        or not is_process_alive(pid)
    ):
        return
    memory.close()
    raise StorageInUseError(f"mark file belongs to a live process: path={path} pid={pid}; end that process first")
