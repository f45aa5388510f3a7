"""`ordo cluster upgrade` and `versions`: which versions of the services are in force, and which code members have."""

from __future__ import annotations

from typing import NamedTuple

from ordo.cluster.admin.order_timeouts import UPGRADE_TIMEOUT_S
from ordo.cluster.admin.orders import MemberAccess, check_refusal
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.app_version import ALL_SERVICES, NO_VERSION, format_version
from ordo.cluster.wire.levels import SERVICE_VERSION_LEVEL, describe_want_of_service_versions
from ordo.cluster.wire.version_rows import (
    LEVEL_UNKNOWN,
    InForce,
    MemberCode,
    decode_in_force,
    decode_levels,
    decode_members,
    decode_services,
    shared_rows,
)
from ordo.runtime.errors import ClusterError

QUERY_TIMEOUT_S = 10.0


class OwnVersions(NamedTuple):
    """The versions of one service of a member, or those that all its services have.

    Without versions it has said nothing: the member is not running, or its container has not started.
    """

    versions: list[str]
    lack_position: int
    """Where it, or the first of them, stands still for want of `lack`; -1: it does not."""
    lack: str


class MemberVersions(NamedTuple):
    """One member."""

    member_id: int
    role: str
    common: OwnVersions
    """The versions that all its services have."""
    services: list[OwnVersions]
    """Keyed by service id."""
    protocol_level: int
    """That its release of Ordo knows; LEVEL_UNKNOWN: it has not said, or has a release that does not."""


class VersionInForce(NamedTuple):
    """The version of one service in force, by the log of the member that was asked."""

    version: str
    """Empty while the log is."""
    since_position: int
    """-1: since before the snapshot that the member started from."""


class ClusterVersions(NamedTuple):
    """The versions in force, and the versions that each member has.

    From a release in which one version is in force for all services, all is shown as of one service.
    """

    services: list[VersionInForce]
    """Keyed by service id."""
    protocol_level: int
    """The protocol level of the log; LEVEL_UNKNOWN if the member that was asked has an older release."""
    level_since_position: int
    """-1: since before the snapshot that the member started from, or since the log began."""
    members: list[MemberVersions]


def upgrade(
    member: MemberAccess, app_version: int, service_id: int | None = None, timeout_s: float = UPGRADE_TIMEOUT_S
) -> int:
    """Has the leader put another version of all services, or of one, into force; returns from which log position on.

    Returns when its own services have gone over to it. Raises ClusterError with the reason when the leader refuses,
    OutcomeUnknownError when it does not come about in time: it may then still do.
    """
    if service_id is not None:
        _demand_level(member)
    request = {"app_version": app_version, "service_id": ALL_SERVICES if service_id is None else service_id}
    answer = member.ask(ordo_codecs.UPGRADE_REQUEST, request, ordo_codecs.UPGRADE_RESPONSE, timeout_s)
    check_refusal(member, answer)
    return int(answer.log_position)


def _demand_level(member: MemberAccess) -> None:
    """Check the leader's level: with an earlier release it would upgrade all services instead of the one meant."""
    found = cluster_versions(member)
    if found.protocol_level < SERVICE_VERSION_LEVEL:
        raise ClusterError(describe_want_of_service_versions(found.protocol_level))


def cluster_versions(member: MemberAccess, timeout_s: float = QUERY_TIMEOUT_S) -> ClusterVersions:
    """Ask all members through this one."""
    found = member.ask(ordo_codecs.VERSIONS_QUERY, {}, ordo_codecs.VERSIONS_RESPONSE, timeout_s)
    in_force = decode_in_force(found.in_force) or [InForce(found.app_version, found.since_position)]
    by_member: dict[int, list[MemberCode]] = {}
    for row in decode_services(found.services) or decode_members(found.members):
        by_member.setdefault(row.member_id, []).append(row)
    levels = dict(decode_levels(found.levels))
    return ClusterVersions(
        [VersionInForce(_format(one.app_version), one.since_position) for one in in_force],
        max(found.protocol_level, LEVEL_UNKNOWN),
        found.level_since_position,
        [_member(rows, levels.get(one, LEVEL_UNKNOWN)) for one, rows in by_member.items()],
    )


def _format(app_version: int) -> str:
    return format_version(app_version) if app_version != NO_VERSION else ""


def _member(rows: list[MemberCode], level: int) -> MemberVersions:
    by_service: dict[int, list[MemberCode]] = {}
    for row in rows:
        by_service.setdefault(row.service_id, []).append(row)
    return MemberVersions(
        rows[0].member_id,
        "voter" if rows[0].is_voter else "learner",
        _own_versions(shared_rows(rows)),
        [_own_versions(by_service[one]) for one in sorted(by_service)],
        level,
    )


def _own_versions(rows: list[MemberCode]) -> OwnVersions:
    """Return the versions of one service, or of all together."""
    versions = [format_version(row.app_version) for row in rows if row.app_version != NO_VERSION]
    return OwnVersions(versions, rows[0].lack_position, _format(rows[0].lack_version))
