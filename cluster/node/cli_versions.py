"""`ordo cluster upgrade` and `ordo cluster versions`."""

from __future__ import annotations

from typing import Annotated

import typer

from cluster.node import upgrading
from cluster.node.cli_print import make_table, print_json, show
from cluster.node.cli_reach import Target, reaching
from cluster.wire.app_version import parse_version
from cluster.wire.version_rows import LEVEL_UNKNOWN

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
    """Which version of the service and which protocol level of the log are in force, and what each member has."""
    with target.member() as member:
        found = upgrading.cluster_versions(member)
    if as_json:
        print_json(_as_json(found))
        return
    show(f"in force: {'version ' + found.in_force if found.in_force else 'nothing yet'}{_since(found.since_position)}")
    if found.protocol_level != LEVEL_UNKNOWN:
        show(f"protocol level of the log: {found.protocol_level}{_since(found.level_since_position)}")
    table = make_table("id", "role", "has", "service", "protocol level")
    for one in found.members:
        state = f"stands still at {one.lack_position:,}: no code of version {one.lack}" if one.lack else "runs"
        has = ", ".join(one.versions)
        level = "-" if one.protocol_level == LEVEL_UNKNOWN else str(one.protocol_level)
        table.add_row(str(one.member_id), one.role, has or "-", state if has else "has said nothing", level)
    show(table)


def _since(position: int) -> str:
    return f", since log position {position:,}" if position >= 0 else ""


def _as_json(found: upgrading.ClusterVersions) -> dict[str, object]:
    return {
        "in_force": found.in_force or None,
        "since_position": found.since_position if found.since_position >= 0 else None,
        "protocol_level": found.protocol_level if found.protocol_level != LEVEL_UNKNOWN else None,
        "level_since_position": found.level_since_position if found.level_since_position >= 0 else None,
        "members": [
            {
                "member_id": one.member_id,
                "role": one.role,
                "versions": one.versions or None,
                "lacks": one.lack or None,
                "lack_position": one.lack_position if one.lack else None,
                "protocol_level": one.protocol_level if one.protocol_level != LEVEL_UNKNOWN else None,
            }
            for one in found.members
        ],
    }
