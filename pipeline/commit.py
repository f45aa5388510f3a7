"""How far the log of a live node is committed, from its counters file (cnc-and-driver-protocol.md §5)."""

from __future__ import annotations

import glob
import hashlib
import os
import struct

from archive.live import read_live_counters
from pipeline.errors import CommitUnknownError
from runtime.errors import ArchiveError

COMMIT_POSITION_TYPE = 203
RECORDING_POSITION_TYPE = 100
CNC_NAME = "cnc.dat"
_NEAR = ("../driver", "../aeron", "..", ".")


def counters_file(directory: str, counters: str | None = None) -> str:
    """The `cnc.dat` of the node whose archive is in `directory`; `counters` names it or its folder.

    Raises CommitUnknownError when it is not found.
    """
    if counters is not None:
        path = counters if counters.endswith(CNC_NAME) else os.path.join(counters, CNC_NAME)
        if os.path.exists(path):
            return path
        raise CommitUnknownError(f"option commit={counters!r}: no {CNC_NAME} there; give the aeron_dir of the node")
    data_dir = os.path.dirname(os.path.realpath(directory))
    digest = hashlib.sha256(data_dir.encode()).hexdigest()[:8]  # as cluster/node/config.py names a node's shared memory
    near = [os.path.normpath(os.path.join(directory, folder, CNC_NAME)) for folder in _NEAR]
    for path in [*glob.glob(f"/dev/shm/ordo-*-{digest}/{CNC_NAME}"), *near]:
        if os.path.exists(path):
            return path
    raise CommitUnknownError(
        f"the log in {directory} is being recorded, or its node did not stop in an orderly way, and no {CNC_NAME} is "
        f"near it to tell the commit position; give option commit=<aeron_dir of the node>, commit=<position>, or "
        f"commit=recorded for all that is on disk, committed or not"
    )


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
