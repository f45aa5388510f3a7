"""How far the log of a live node is committed, from its counters file (cnc-and-driver-protocol.md §5)."""

from __future__ import annotations

import glob
import hashlib
import os
import struct
import time
from pathlib import Path

from ordo.archive.live_positions import read_live_counters
from ordo.cluster.wire.counters.mark_file import (
    HEADER_LENGTH_BYTES,
    LIVENESS_TIMEOUT_MS,
    MARK_FILE_HEADER,
    MODULE_MARK_FILE_NAME,
)
from ordo.pipeline.decoding.errors import CommitUnknownError
from ordo.runtime.errors import ArchiveError, DecodeError
from ordo.runtime.processes import is_process_alive

COMMIT_POSITION_TYPE = 203
RECORDING_POSITION_TYPE = 100
CNC_NAME = "cnc.dat"
_NEAR = ("../driver", "../aeron", "..", ".")


def counters_file(directory: str, counters: str | None = None) -> str:
    """Return the `cnc.dat` of the node whose archive is in `directory`; `counters` names it or its folder.

    Raises CommitUnknownError when it is not found.
    """
    if counters is not None:
        path = counters if counters.endswith(CNC_NAME) else os.path.join(counters, CNC_NAME)
        if os.path.exists(path):
            return path
        raise CommitUnknownError(f"option commit={counters!r}: no {CNC_NAME} there; give the aeron_dir of the node")
    data_dir = os.path.dirname(os.path.realpath(directory))
    digest = hashlib.sha256(data_dir.encode()).hexdigest()[
        :8
    ]  # as cluster/settings/config.py names a node's shared memory
    near = [os.path.normpath(os.path.join(directory, folder, CNC_NAME)) for folder in _NEAR]
    marked = [os.path.join(folder, CNC_NAME) for folder in _aeron_dirs_of_live_node(data_dir)]
    named = [path for path in glob.glob(f"/dev/shm/ordo-*-{digest}/{CNC_NAME}") if _has_owner_of(path, directory)]
    for path in [*named, *marked, *near]:
        if os.path.exists(path):
            return path
    raise CommitUnknownError(
        f"the log in {directory} is being recorded, or its node did not stop in an orderly way, and no {CNC_NAME} is "
        f"near it to tell the commit position; give option commit=<aeron_dir of the node>, commit=<position>, or "
        f"commit=recorded for all that is on disk, committed or not"
    )


def _has_owner_of(path: str, directory: str) -> bool:
    """Return whether counters are of the user whose archive it is.

    Everybody may make a folder of that name in /dev/shm.
    """
    try:
        return os.stat(path).st_uid == os.stat(directory).st_uid
    except OSError:
        return False


def _aeron_dirs_of_live_node(data_dir: str) -> list[str]:
    """Where the mark file in a node's folder says that its counters are, if the node lives.

    One that is gone may have left the name of a folder that belongs to another node by now.
    """
    try:
        mark = Path(data_dir, "cluster", MODULE_MARK_FILE_NAME).read_bytes()[:HEADER_LENGTH_BYTES]
        header = MARK_FILE_HEADER.decode(mark)
        is_fresh = abs(time.time() * 1000 - header.activity_timestamp) < LIVENESS_TIMEOUT_MS
        return [header.aeron_directory] if is_fresh and is_process_alive(header.pid) else []
    except (OSError, OverflowError, DecodeError):
        return []


def live_commit_position(directory: str, recording_id: int, counters: str | None = None) -> int:
    """Commit position of a live node's log, at most what its own archive has recorded.

    Raises CommitUnknownError when the counters file is not found or the node has no commit position yet.
    """
    path = counters_file(directory, counters)
    try:
        found = read_live_counters(path)
    except ArchiveError as error:
        raise CommitUnknownError(error.message) from error
    committed = [counter.value for counter in found if counter.type_id == COMMIT_POSITION_TYPE]
    recorded = [
        counter.value
        for counter in found
        if counter.type_id == RECORDING_POSITION_TYPE and struct.unpack_from("<q", counter.key)[0] == recording_id
    ]
    if not committed:
        raise CommitUnknownError(
            f"{path} has no commit position (counter {COMMIT_POSITION_TYPE}); is a cluster node running?"
        )
    return min(committed + recorded)
