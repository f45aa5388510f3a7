"""`ordo cluster upgrade` and `versions`: which version of the service is in force, and which code members have."""

from __future__ import annotations

from typing import NamedTuple

from cluster.node.orders import MemberAccess, check_refusal
from cluster.wire import ordo_codecs
from cluster.wire.app_version import NO_VERSION, format_version
from cluster.wire.version_rows import LEVEL_UNKNOWN, MemberCode, decode_levels, decode_members

UPGRADE_TIMEOUT_S = 30.0
QUERY_TIMEOUT_S = 10.0


class MemberVersions(NamedTuple):
    """One member. Without versions it has said nothing: it is not running, or its container has not started."""

    member_id: int
    role: str
    versions: list[str]
    lack_position: int
    """Where its service stands still for want of `lack`; -1: it does not."""
    lack: str
    protocol_level: int
    """That its release of Ordo knows; LEVEL_UNKNOWN: it has not said, or has a release that does not."""


class ClusterVersions(NamedTuple):
    """What is in force, by the log of the member that was asked, and what each member has."""

    in_force: str
    """Empty while the log is."""
    since_position: int
    """-1: since before the snapshot that the member started from."""
    protocol_level: int
    """Of the log; LEVEL_UNKNOWN: the member that was asked has a release that does not say it."""
    level_since_position: int
    """-1: since before the snapshot that the member started from, or since the log began."""
    members: list[MemberVersions]


def upgrade(member: MemberAccess, app_version: int, timeout_s: float = UPGRADE_TIMEOUT_S) -> int:
    """Has the leader put another version of the service into force, and returns from which log position on.

    Returns when its own service has gone over to it. Raises ClusterError with the reason when the leader refuses,
    OutcomeUnknownError when it does not come about in time: it may then still do.
    """
    request = {"app_version": app_version}
    answer = member.ask(ordo_codecs.UPGRADE_REQUEST, request, ordo_codecs.UPGRADE_RESPONSE, timeout_s)
    check_refusal(member, answer)
    return int(answer.log_position)


def cluster_versions(member: MemberAccess, timeout_s: float = QUERY_TIMEOUT_S) -> ClusterVersions:
    """Asks all members through this one."""
    found = member.ask(ordo_codecs.VERSIONS_QUERY, {}, ordo_codecs.VERSIONS_RESPONSE, timeout_s)
    by_member: dict[int, list[MemberCode]] = {}
    for row in decode_members(found.members):
        by_member.setdefault(row.member_id, []).append(row)
    levels = dict(decode_levels(found.levels))
    return ClusterVersions(
        format_version(found.app_version) if found.app_version != NO_VERSION else "",
        found.since_position,
        max(found.protocol_level, LEVEL_UNKNOWN),
        found.level_since_position,
        [_member(rows, levels.get(one, LEVEL_UNKNOWN)) for one, rows in by_member.items()],
    )


def _member(rows: list[MemberCode], level: int) -> MemberVersions:
    first = rows[0]
    return MemberVersions(
        first.member_id,
        "voter" if first.is_voter else "learner",
        [format_version(row.app_version) for row in rows if row.app_version != NO_VERSION],
        first.lack_position,
        format_version(first.lack_version) if first.lack_version != NO_VERSION else "",
        level,
    )
