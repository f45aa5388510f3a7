"""`ordo cluster evidence`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ordo.cluster.commands.printing import make_table, print_json, show
from ordo.cluster.commands.reaching import Target, reaching

if TYPE_CHECKING:
    from ordo.cluster.admin.stored_evidence import Kept

DIGITS = 12
"""So much of a digest tells two apart on a screen; --json has all of it."""


@reaching
def evidence(
    target: Target,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON; what is not known is null")] = False,
) -> None:
    """List the states that a member keeps because a quorum had another one: its service executed something otherwise.

    With --config those of this machine's member, running or not; with --endpoints those of all members that answer.
    """
    found = _of_all(target) if target.is_remote else _of_one(target)
    if as_json:
        print_json([_row(member_id, kept) for member_id, kept in found])
        return
    table = make_table(
        "id", "state at", "differed at", "alike up to", "recordings", "MiB", "digest", "theirs", "good recordings"
    )
    for member_id, (one, good) in found:
        since = f"{one.since_position:,}" if one.since_position > 0 else "-"
        ids, size = _ids(one.recording_ids), f"{one.length_bytes / (1 << 20):,.1f}"
        digests = one.own_digest.hex()[:DIGITS], one.their_digest.hex()[:DIGITS]
        table.add_row(
            str(member_id), f"{one.log_position:,}", f"{one.found_position:,}", since, ids, size, *digests, _ids(good)
        )
    show(table)


def _of_one(target: Target) -> list[tuple[int, Kept]]:
    from ordo.cluster.admin.stored_evidence import list_evidence

    config = target.load_config()
    return [(config.node.member_id, kept) for kept in list_evidence(config)]


def _of_all(target: Target) -> list[tuple[int, Kept]]:
    from ordo.cluster.admin.stored_evidence import Kept

    with target.connect() as cluster:
        return [(member_id, Kept(one, None)) for member_id, one in cluster.list_evidence()]


def _row(member_id: int, kept: Kept) -> dict[str, Any]:
    one, good = kept.evidence, kept.good_recording_ids or (None, None)
    return {
        "member_id": member_id,
        **one.describe(),
        "since_position": one.since_position if one.since_position > 0 else None,
        "good_service_recording_id": good[0],
        "good_module_recording_id": good[-1],
    }


def _ids(recording_ids: tuple[int, ...] | None) -> str:
    return ", ".join(map(str, recording_ids)) if recording_ids is not None else "-"
