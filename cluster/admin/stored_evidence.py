"""Snapshots that a node keeps because they differed from the others', from its store on disk."""

from __future__ import annotations

from typing import Any, NamedTuple

from ordo.cluster.admin.checked_numbers import parse_int64
from ordo.cluster.admin.member_store import open_stored
from ordo.cluster.module.state.state_store import Evidence
from ordo.cluster.settings.config import NodeSettings
from ordo.runtime.errors import DecodeError


class Kept(NamedTuple):
    """A differing snapshot, and the recordings of that of the others at the same position, where the member took it."""

    evidence: Evidence
    good_recording_ids: tuple[int, ...] | None
    """The services' and the module's; None where this member does not hold it, or not any more."""


def list_evidence(config: NodeSettings) -> list[Kept]:
    """Return the evidence that this node keeps, the oldest first; also while it runs.

    Raises StorageMissingError when it has never run.
    """
    with open_stored(config) as store:
        snapshots = {one.log_position: one for one in store.load().snapshots if one.is_valid}
        found = store.list_evidence()
    good = {at: one.recording_ids for at, one in snapshots.items()}
    return [Kept(one, ids if (ids := good.get(one.log_position)) != one.recording_ids else None) for one in found]


def parse_evidence(rows: Any) -> list[Evidence]:
    """Return the evidence that a member reports. Raises DecodeError."""
    try:
        return [
            Evidence(
                log_position=parse_int64(row["log_position"]),
                found_position=parse_int64(row["found_position"]),
                since_position=parse_int64(row["since_position"]),
                service_recording_id=parse_int64(row["service_recording_id"]),
                module_recording_id=parse_int64(row["module_recording_id"]),
                length_bytes=parse_int64(row["length_bytes"]),
                own_digest=bytes.fromhex(row["own_digest"]),
                their_digest=bytes.fromhex(row["their_digest"]),
                more_recording_ids=tuple(map(parse_int64, row.get("more_recording_ids", ()))),
            )
            for row in rows
        ]
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DecodeError(f"this is no list of snapshots that differed: {error}") from None
