"""Answers to tools that ask a member about its cluster (ClusterMembersQuery, cluster-consensus.md §12 and §23)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ordo.cluster.wire import codecs
from ordo.cluster.wire.members import Member, encode_members
from ordo.runtime.native.cluster_time import time_ns
from ordo.runtime.native.sentinels import NULL_VALUE

if TYPE_CHECKING:
    from ordo.consensus.core import ConsensusCore


def members_response(
    voters: Sequence[Member], learners: Sequence[Member], leader_member_id: int, correlation_id: int
) -> bytes:
    """Return an encoded ClusterMembersResponse: the members as text; learners are Aeron's passive followers."""
    return codecs.CLUSTER_MEMBERS_RESPONSE.encode(
        correlation_id=correlation_id,
        leader_member_id=leader_member_id,
        active_members=encode_members(voters),
        passive_followers=encode_members(learners),
    )


def extended_members_response(
    voters: Sequence[Member],
    learners: Sequence[Member],
    member_id: int,
    core: ConsensusCore,
    cluster_time: int,
    correlation_id: int,
) -> bytes:
    """Return an encoded ClusterMembersExtendedResponse of the member `member_id`; `cluster_time` in its unit.

    A follower knows its own position only, a leader those that were acknowledged in its term; the rest is -1, and so is
    the time of a member's last append, which nobody keeps.
    """
    return codecs.CLUSTER_MEMBERS_EXTENDED_RESPONSE.encode(
        correlation_id=correlation_id,
        current_time_ns=time_ns(cluster_time),
        leader_member_id=core.leader_member_id,
        member_id=member_id,
        active_members=[_entry(member, member_id, core) for member in voters],
        passive_members=[_entry(member, member_id, core) for member in learners],
    )


def _entry(member: Member, own_id: int, core: ConsensusCore) -> dict[str, int | str]:
    """Return an entry of `active_members` or `passive_members`."""
    progress = core.progress
    if member.id == own_id:
        position = progress.own_position
    else:
        position = progress.member_position(member.id) if progress.is_leader else NULL_VALUE
    return {
        "leadership_term_id": NULL_VALUE if position == NULL_VALUE else core.leadership_term_id,
        "log_position": position,
        "time_of_last_append_ns": NULL_VALUE,
        "member_id": member.id,
        "ingress_endpoint": member.ingress,
        "consensus_endpoint": member.consensus,
        "log_endpoint": member.log,
        "catchup_endpoint": member.catchup,
        "archive_endpoint": member.archive,
    }
