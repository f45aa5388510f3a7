"""Questions that tools and operators ask a member, and the answers to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ordo.cluster.module.members.members_query import extended_members_response, members_response
from ordo.cluster.wire import codecs, ordo_codecs

if TYPE_CHECKING:
    from ordo.cluster.module.members.membership import Membership
    from ordo.cluster.module.versions.skips import Skips
    from ordo.cluster.module.versions.versions import Versions
    from ordo.consensus.core import ConsensusCore
    from ordo.runtime.native.clock import Clock
    from ordo.runtime.sbe import Message


class QuestionsHost(Protocol):
    """The member that is asked."""

    @property
    def member_id(self) -> int: ...
    @property
    def cluster_time(self) -> int: ...


class ToolQuestions:
    """Answers one member's questions."""

    def __init__(
        self,
        host: QuestionsHost,
        core: ConsensusCore,
        membership: Membership,
        skips: Skips,
        versions: Versions,
        clock: Clock,
    ) -> None:
        self._host = host
        self._core = core
        self._membership = membership
        self._skips = skips
        self._versions = versions
        self._clock = clock

    def answer(self, table: Message, values: Any) -> bytes | None:
        """Return the answer to a question; None if it comes later, or if the message is no question."""
        if table is ordo_codecs.SKIP_REQUEST:
            return self._skips.on_skip_request(values)
        if table is codecs.CLUSTER_MEMBERS_QUERY:
            return self._list_members(values.correlation_id, values.extended == 1)
        if table is ordo_codecs.MEMBERSHIP_REQUEST:
            return self._membership.on_request(values, self._clock.now())
        if table is ordo_codecs.UPGRADE_REQUEST:
            self._versions.on_upgrade_request(values, self._clock.now())
        elif table is ordo_codecs.VERSIONS_QUERY:
            self._versions.on_query(values, self._clock.now())
        return None

    def _list_members(self, correlation_id: int, is_extended: bool) -> bytes:
        voters, learners, core = self._membership.voters, self._membership.learners, self._core
        if is_extended:
            host = self._host
            return extended_members_response(voters, learners, host.member_id, core, host.cluster_time, correlation_id)
        return members_response(voters, learners, core.leader_member_id, correlation_id)
