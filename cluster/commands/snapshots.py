"""`ordo cluster snapshots`, `recovery-plan`, `invalidate-snapshot`, `renew-log` and `is-leader`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from ordo.cluster.commands.printing import make_table, or_null, print_json, print_values, show
from ordo.cluster.commands.reaching import Target, reaching
from ordo.runtime.native.cluster_time import time_ms

ConfigOption = Annotated[Path, typer.Option(help="node.toml of a member on this machine")]
JsonOption = Annotated[bool, typer.Option("--json", help="print JSON; what is not known is null")]
EXIT_NOT_LEADING = 1


@reaching
def snapshots(target: Target, as_json: JsonOption = False) -> None:
    """List the snapshots that members hold.

    With --config those of this machine's member, running or not, with their recordings, damaged ones too; with
    --endpoints the whole ones of all members that answer.
    """
    rows = _of_all(target) if target.is_remote else _of_one(target)
    if as_json:
        print_json(rows)
    else:
        show(make_snapshots_table(rows))


def make_snapshots_table(rows: list[dict[str, Any]]) -> Any:
    """Return a line for each snapshot."""
    table = make_table("id", "log position", "term", "taken", "recordings", "digest", "whole", padding=(0, 1, 0, 0))
    for row in rows:
        ids, taken = row["recording_ids"], datetime.fromtimestamp(row["timestamp"] / 1000, UTC)
        table.add_row(
            str(row["member_id"]),
            f"{row['log_position']:,}",
            str(row["leadership_term_id"]),
            f"{taken:%Y-%m-%d %H:%M:%S}Z",
            ", ".join(map(str, ids)) if ids is not None else "-",
            (row["digest"] or "-")[:12],
            "yes" if row["is_valid"] else "NO",
        )
    return table


def _of_one(target: Target) -> list[dict[str, Any]]:
    from ordo.cluster.admin.stored_snapshots import list_snapshots

    config = target.load_config()
    return [
        {
            "member_id": config.node.member_id,
            "log_position": entry.log_position,
            "leadership_term_id": entry.leadership_term_id,
            "timestamp": time_ms(entry.timestamp),
            "recording_ids": list(entry.recording_ids),
            "digest": digest.hex() or None,
            "is_valid": entry.is_valid,
        }
        for entry, digest in list_snapshots(config)
    ]


def _of_all(target: Target) -> list[dict[str, Any]]:
    with target.connect() as cluster:
        found = cluster.list_snapshots()
    nothing = {"recording_ids": None, "digest": None, "is_valid": True}
    return [{"member_id": member_id, **one._asdict(), **nothing} for member_id, one in found]


def recovery_plan(config: ConfigOption, as_json: JsonOption = False) -> None:
    """Show what this machine's member starts with: its log, and the snapshot that it starts from."""
    from ordo.cluster.admin.stored_snapshots import make_plan
    from ordo.cluster.settings.config import load_config

    plan = make_plan(load_config(config))._asdict()
    if as_json:
        print_json({name: or_null(value) for name, value in plan.items()})
        return
    shown = {name: "-" if or_null(value) is None else value for name, value in plan.items()}
    print_values({**shown, "snapshot_recording_ids": ", ".join(map(str, plan["snapshot_recording_ids"])) or "-"})


def invalidate_snapshot(
    config: ConfigOption,
    position: Annotated[int | None, typer.Argument(min=1, help="its log position; the newest without it")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON: what was done")] = False,
) -> None:
    """Have a stopped member start from an older snapshot, or from its whole log, and take this one again on its way."""
    from ordo.cluster.admin.stored_snapshots import invalidate_snapshot
    from ordo.cluster.settings.config import load_config

    done = invalidate_snapshot(load_config(config), position)
    if as_json:
        print_json({"done": done})
    else:
        show(done)


def renew_log(
    config: ConfigOption,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON: what was done")] = False,
) -> None:
    """Start the log of a stopped member again after its snapshot, with other lengths; on all members alike.

    The cluster was ended with `ordo cluster shutdown`. What the log had before is deleted at the next start.
    """
    from ordo.cluster.admin.log_renewal import renew_log
    from ordo.cluster.settings.config import load_config

    done = renew_log(load_config(config))
    if as_json:
        print_json({"done": done})
    else:
        show(done)


def is_leader(config: ConfigOption, as_json: JsonOption = False) -> None:
    """Return whether this machine's member leads. Exit status: 0 it leads, 1 it does not, or does not run."""
    from ordo.cluster.admin.local_member import node_status
    from ordo.cluster.settings.config import load_config

    found = node_status(load_config(config))
    leads = found.role == "LEADER" and found.has_quorum
    if as_json:
        print_json({"member_id": found.member_id, "is_leader": leads})
    else:
        show("yes" if leads else "no")
    if not leads:
        raise typer.Exit(EXIT_NOT_LEADING)
