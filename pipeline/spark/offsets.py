"""What Spark keeps of a stream in its checkpoint: positions by recording, and which cluster's log they are of.

    {"node0/0": 4096, "cluster": "<identity>@<position>"}

An offset of an earlier release, and one of folders and nodes that do not say whose log they have, is without the
latter; a stream takes it at its next batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ordo.cluster.wire.known_cluster import KnownCluster
from ordo.cluster.wire.log_identity import Log, Origin, identity_text, parse_identity
from ordo.follow.recordings.ranges import Survey
from ordo.pipeline.recordings.recordings import Recording, check_one_cluster

CLUSTER = "cluster"
"""A key of no recording: those have a slash, or are that of the network."""
Offset = dict[str, Any]


def positions_of(offset: Offset) -> dict[str, int]:
    """Return the positions of an offset, by recording."""
    return {key: int(position) for key, position in offset.items() if key != CLUSTER}


def with_cluster(positions: dict[str, int], origin: Origin | None) -> Offset:
    """Return the offset of these positions."""
    return {**positions} if origin is None else {**positions, CLUSTER: identity_text(origin)}


def check_folders(offset: Offset, recordings: Iterable[Recording]) -> Origin | None:
    """Return which cluster's log a stream has from now on. Raises OtherClusterError where that is not the offset's."""
    listed, positions = list(recordings), positions_of(offset)
    known = _known(offset, max((positions.get(entry.key, 0) for entry in listed if entry.is_log), default=0))
    check_one_cluster(listed, known)
    return known.origin


def check_survey(
    offset: Offset, position: int, found: Survey, prove: Callable[[KnownCluster], object]
) -> Origin | None:
    """As `check_folders`, of what nodes have said. `position`: up to here the offset's log was read.

    `prove` has the nodes show that their log goes on with it, where they have another identity by now.
    """
    known, origin, addresses = _known(offset, position), found.origin, ", ".join(found.answered)
    told = None if origin is None else Log(origin.identity, origin.position, origin.position)
    known.admits(told, addresses)
    known.check()
    has_changed = told is not None and known.origin is not None and told.identity != known.origin.identity
    if has_changed and known.find_doubt(told) is not None and not known.is_behind(told):
        prove(known)
    known.adopt(told, addresses)
    return known.origin


def _known(offset: Offset, position: int) -> KnownCluster:
    kept = offset.get(CLUSTER)
    origin = None if kept is None else parse_identity(str(kept))
    known = KnownCluster(origin, "" if origin is None else "the checkpoint", "begin with a new checkpoint")
    known.position = position
    return known
