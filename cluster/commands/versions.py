"""`ordo cluster upgrade` and `ordo cluster versions`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ordo.cluster.admin.order_timeouts import UPGRADE_TIMEOUT_S
from ordo.cluster.commands.printing import make_table, print_json, show
from ordo.cluster.commands.reaching import Target, reaching

if TYPE_CHECKING:
    from ordo.cluster.admin import upgrading

JsonOption = Annotated[bool, typer.Option("--json", help="print JSON; what is not known is null")]


@reaching
def upgrade(
    target: Target,
    version: Annotated[str, typer.Argument(help="version of the service, as in [service] versions")],
    service: Annotated[
        int | None, typer.Option("--service", min=0, help="id of the one service to upgrade; all of them without it")
    ] = None,
    timeout: Annotated[float, typer.Option("--timeout", min=0.1, help="seconds to wait")] = UPGRADE_TIMEOUT_S,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Put a version of the services, or of one, into force, on all members at one position of the log.

    Every voter must have the code of the version, side by side with that of the one in force ([service] versions).
    """
    from ordo.cluster.admin import upgrading
    from ordo.cluster.wire.app_version import parse_version

    app_version = parse_version(version)
    with target.leader(timeout) as leader:
        position = upgrading.upgrade(leader, app_version, service, timeout)
    name = "the service" if service is None else f"service {service}"
    done = f"version {version} of {name} is in force from log position {position:,} on"
    if as_json:
        print_json({"done": done, "by_member_id": leader.member_id, "service_id": service, "log_position": position})
    else:
        show(done)


@reaching
def versions(target: Target, as_json: JsonOption = False) -> None:
    """Show the versions of services and the protocol level in force, and what each member has."""
    from ordo.cluster.admin import upgrading
    from ordo.cluster.wire.version_rows import LEVEL_UNKNOWN

    with target.member() as member:
        found = upgrading.cluster_versions(member)
    if as_json:
        print_json(_as_json(found))
        return
    for service_id, one in enumerate(found.services):
        name = f" for service {service_id}" if len(found.services) > 1 else ""
        version = f"version {one.version}" if one.version else "nothing yet"
        show(f"in force{name}: {version}{_since(one.since_position)}")
    if found.protocol_level != LEVEL_UNKNOWN:
        show(f"protocol level of the log: {found.protocol_level}{_since(found.level_since_position)}")
    show(make_versions_table(found))


def make_versions_table(found: upgrading.ClusterVersions) -> Any:
    """Return a row for each service of each member."""
    from ordo.cluster.wire.version_rows import LEVEL_UNKNOWN

    is_of_one = len(found.services) == 1
    names = ("id", "role", *([] if is_of_one else ["service id"]), "has", "level", "service")
    table = make_table(*names, padding=(0, 1, 0, 0))
    for one in found.members:
        level = "-" if one.protocol_level == LEVEL_UNKNOWN else str(one.protocol_level)
        for service_id, own in enumerate(one.services):
            state = f"stands at {own.lack_position:,}: lacks {own.lack}" if own.lack else "runs"
            has = ", ".join(own.versions)
            ids = [str(one.member_id), one.role, *([] if is_of_one else [str(service_id)])]
            table.add_row(*ids, has or "-", level, state if has else "has said nothing")
    return table


def _since(position: int) -> str:
    return f", since log position {position:,}" if position >= 0 else ""


def _as_json(found: upgrading.ClusterVersions) -> dict[str, object]:
    from ordo.cluster.wire.version_rows import LEVEL_UNKNOWN

    services = [_in_force_as_json(one) for one in found.services]
    return {
        **services[0],
        "services": services,
        "protocol_level": found.protocol_level if found.protocol_level != LEVEL_UNKNOWN else None,
        "level_since_position": found.level_since_position if found.level_since_position >= 0 else None,
        "members": [
            {
                "member_id": one.member_id,
                "role": one.role,
                **_own_as_json(one.common),
                "services": [_own_as_json(own) for own in one.services],
                "protocol_level": one.protocol_level if one.protocol_level != LEVEL_UNKNOWN else None,
            }
            for one in found.members
        ],
    }


def _in_force_as_json(one: upgrading.VersionInForce) -> dict[str, object]:
    return {"in_force": one.version or None, "since_position": one.since_position if one.since_position >= 0 else None}


def _own_as_json(own: upgrading.OwnVersions) -> dict[str, object]:
    return {
        "versions": own.versions or None,
        "lacks": own.lack or None,
        "lack_position": own.lack_position if own.lack else None,
    }
