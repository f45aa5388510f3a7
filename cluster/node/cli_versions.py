"""`ordo cluster upgrade` and `ordo cluster versions`."""

from __future__ import annotations

from typing import Annotated

import typer

from cluster.node import upgrading
from cluster.node.cli_print import make_table, print_json, show
from cluster.node.cli_reach import Target, reaching
from cluster.wire.app_version import parse_version

JsonOption = Annotated[bool, typer.Option("--json", help="print JSON; what is not known is null")]


@reaching
def upgrade(
    target: Target,
    version: Annotated[str, typer.Argument(help="version of the service, as in [service] versions")],
    timeout: Annotated[float, typer.Option("--timeout", min=0.1, help="seconds to wait")] = upgrading.UPGRADE_TIMEOUT_S,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Put a version of the service into force, on all members at one position of the log.

    Every voter must have the code of the version, side by side with that of the one in force ([service] versions).
    """
    app_version = parse_version(version)
    with target.leader(timeout) as leader:
        position = upgrading.upgrade(leader, app_version, timeout)
    done = f"version {version} of the service is in force from log position {position:,} on"
    if as_json:
        print_json({"done": done, "by_member_id": leader.member_id, "log_position": position})
    else:
        show(done)


@reaching
def versions(target: Target, as_json: JsonOption = False) -> None:
    """Which version of the service is in force, and which code each member has."""
    with target.member() as member:
        found = upgrading.cluster_versions(member)
    if as_json:
        print_json(_as_json(found))
        return
    since = f", since log position {found.since_position:,}" if found.since_position >= 0 else ""
    show(f"in force: {'version ' + found.in_force if found.in_force else 'nothing yet'}{since}")
    table = make_table("id", "role", "has", "service")
    for one in found.members:
        state = f"stands still at {one.lack_position:,}: no code of version {one.lack}" if one.lack else "runs"
        has = ", ".join(one.versions)
        table.add_row(str(one.member_id), one.role, has or "-", state if has else "has said nothing")
    show(table)


def _as_json(found: upgrading.ClusterVersions) -> dict[str, object]:
    return {
        "in_force": found.in_force or None,
        "since_position": found.since_position if found.since_position >= 0 else None,
        "members": [
            {
                "member_id": one.member_id,
                "role": one.role,
                "versions": one.versions or None,
                "lacks": one.lack or None,
                "lack_position": one.lack_position if one.lack else None,
            }
            for one in found.members
        ],
    }
