"""The members of the cluster as the log has them, and the leader's changes to them, one at a time.

Whether a change may be made now is decided in `consensus.handlers.membership`; a ConfigurationEvent in the log makes
it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.configuration import NamedConfiguration, decode_configuration
from ordo.cluster.wire.levels import FEW_MEMBERS_MAX, MEMBERS_LEVEL, describe_want_of_members
from ordo.cluster.wire.members import Member, parse_member
from ordo.cluster.wire.ordo_codecs import MembershipChange
from ordo.cluster.wire.succession import IS_OVER
from ordo.consensus.state.configuration import Configuration, changed
from ordo.runtime.errors import ConfigurationError
from ordo.runtime.native.sentinels import NULL_VALUE

if TYPE_CHECKING:
    from ordo.cluster.module.log.log_keeper import LogKeeper
    from ordo.cluster.module.state.peers import Contacts
    from ordo.cluster.module.state.transfer import LeadershipTransfer
    from ordo.cluster.wire import records
    from ordo.consensus.core import ConsensusCore
    from ordo.sequencer.sequencer import Sequencer

SETTLING_NS = 2_000_000_000
"""How long a removed member still gets the live log, so that it sees the record that removes it."""


def _id(member: Member) -> int:
    return member.id


class MembershipHost(Protocol):
    """The member whose cluster this is."""

    has_ended: bool
    transfer: LeadershipTransfer

    @property
    def is_leader(self) -> bool: ...
    @property
    def cluster_time(self) -> int: ...
    @property
    def is_log_over(self) -> bool: ...
    def announce(self, event: str, text: str) -> None:
        """Write one line to the log of the process."""


class Membership:
    """Keeps contacts and log destinations in step with the configuration in force, and carries out changes.

    `_request` is the change that is appended and not committed, as (log position, correlation id). `_held` is one that
    adds a member, to which the driver still makes a publication.
    """

    def __init__(
        self,
        host: MembershipHost,
        core: ConsensusCore,
        sequencer: Sequencer,
        log: LogKeeper,
        contacts: Contacts,
        configured: tuple[Member, ...],
        newest_level: Callable[[], int],
        answer_tool: Callable[[bytes | None], None],
    ) -> None:
        """Take the member's parts; `configured` are the members of the configuration file.

        `newest_level` returns the protocol level at the end of the log, `answer_tool` sends an answer to the operator,
        or the tool on this machine, that waits for it.
        """
        self._host = host
        self._core = core
        self._sequencer = sequencer
        self._log = log
        self._configured = configured
        self._contacts = contacts
        self._newest_level = newest_level
        self._answer_tool = answer_tool
        self._request: tuple[int, int] | None = None
        self._held: records.MembershipRequest | None = None
        self._is_in_flight = False
        self._settled_ns = 0
        self._is_announced = True
        self._others: list[Member] | None = None

    # -- what is in force ------------------------------------------------------------------------------------------

    @property
    def voters(self) -> list[Member]:
        """The voters of the configuration in force, by ascending id."""
        return self._contacts.find(self._core.configuration.voter_ids)

    @property
    def learners(self) -> list[Member]:
        """The learners of the configuration in force, by ascending id: they have no vote."""
        return self._contacts.find(self._core.configuration.learner_ids)

    @property
    def others(self) -> list[Member]:
        """Voters and learners other than this member; the same list object until `apply`."""
        if self._others is None:
            self._others = [one for one in [*self.voters, *self.learners] if one.id != self._core.member_id]
        return self._others

    @property
    def is_of_the_log(self) -> bool:
        """Whether a record or a snapshot names the members; otherwise the configuration file does."""
        return self._core.configuration_position != NULL_VALUE

    def at(self, log_position: int) -> NamedConfiguration | None:
        """Return the configuration that the log has in force at a position, or None."""
        configuration = self._core.configuration_at(log_position)
        if configuration is None:
            return None
        find = self._contacts.find
        return NamedConfiguration(tuple(find(configuration.voter_ids)), tuple(find(configuration.learner_ids)))

    def on_record(self, position: int, values: records.ConfigurationEvent) -> None:
        """Put a ConfigurationEvent of this member's durable log in force, committed or not (Raft §4.1)."""
        named = decode_configuration(values)
        for member in (*named.voters, *named.learners):
            self._contacts.learn(member)
        self._core.on_configuration(position, named.ids())
        self._is_in_flight = False
        self.apply()

    def tell_difference(self) -> None:
        """Say at start where the configuration file differs from the log; the log counts."""
        configured, found = set(self._configured), {*self.voters, *self.learners}
        if self.is_of_the_log and configured != found:
            names = [", ".join(str(member.id) for member in sorted(each, key=_id)) for each in (found, configured)]
            text = (
                f"the log has members {names[0]}, the configuration file {names[1]} or other endpoints: the log holds"
            )
            self._host.announce("cluster.members_differ", text)

    def apply(self) -> None:
        """Take note of a new configuration in force; the next ticks update contacts and destinations."""
        self._others = None
        self._settled_ns = NULL_VALUE
        self._is_announced = False

    def work(self, now_ns: int) -> None:
        """Bring contacts and log destinations in step with the configuration; called with every slow tick."""
        host = self._host
        self._contacts.connect(now_ns)
        if self._held is not None and not self._contacts.is_awaited(self._held.member_id):
            self._answer_tool(self._resume(self._held, now_ns))
        if self._settled_ns == NULL_VALUE:
            self._settled_ns = now_ns + SETTLING_NS
        self._log.send_to(self.others, is_final=now_ns >= self._settled_ns, now_ns=now_ns)
        if not self._is_announced:
            self._is_announced = True
            host.announce("cluster.configuration", self._core.configuration.describe())
        if self._core.is_removed and not host.has_ended:
            text = f"member {self._core.member_id} was removed from the cluster: its node ends"
            host.announce("cluster.removed", text)
            host.has_ended = True

    # -- changes ---------------------------------------------------------------------------------------------------

    def on_request(self, request: records.MembershipRequest, now_ns: int) -> bytes | None:
        """Return the answer to a MembershipRequest, or None while the change is under way: `execute` answers then."""
        try:
            refusal = self._begin(request, now_ns)
        except ConfigurationError as error:
            refusal = error.message
        return self._answer(request.correlation_id, refusal) if refusal else None

    def _resume(self, request: records.MembershipRequest, now_ns: int) -> bytes | None:
        """Go on with a request for a member that the driver has an answer about."""
        self._held = None
        if not self._contacts.is_reachable(request.member_id):
            return self._answer(request.correlation_id, f"{request.member!r} cannot be reached; see `ordo errors`")
        return self.on_request(request, now_ns)

    def _begin(self, request: records.MembershipRequest, now_ns: int) -> str:
        host = self._host
        if not host.is_leader:
            return f"member {self._core.member_id} does not lead"
        if host.is_log_over:
            return IS_OVER
        is_busy = self._is_in_flight or self._request is not None or self._held is not None
        if is_busy or host.transfer.is_under_way:
            return "another change is under way; try again when it is done"
        wanted = self._wanted(request)
        refusal = self._core.find_refusal(wanted, self._log.near_position, now_ns) or self._find_missing_level(wanted)
        return refusal or self._append(wanted, request, now_ns)

    def _find_missing_level(self, wanted: Configuration) -> str:
        count = len(wanted.member_ids)
        is_known = count <= FEW_MEMBERS_MAX or self._newest_level() >= MEMBERS_LEVEL
        return "" if is_known else describe_want_of_members(count)

    def _wanted(self, request: records.MembershipRequest) -> Configuration:
        current, member_id = self._core.configuration, request.member_id
        if request.change == MembershipChange.ADD_LEARNER:
            if member_id in current.member_ids:
                raise ConfigurationError(f"member {member_id} is in the cluster already: {current.describe()}")
            return changed(current, learners=[member_id])
        if member_id not in current.member_ids:
            raise ConfigurationError(f"member {member_id} is not in the cluster: {current.describe()}")
        if request.change == MembershipChange.PROMOTE:
            return changed(current, voters=[member_id])
        if request.change == MembershipChange.DEMOTE:
            return changed(current, learners=[member_id])
        return changed(current, gone=[member_id])

    def _append(self, wanted: Configuration, request: records.MembershipRequest, now_ns: int) -> str:
        """Append a configuration, or hold its request until a new member has a publication.

        Return why neither could be, or an empty string.
        """
        host = self._host
        if request.change == MembershipChange.ADD_LEARNER:
            member = parse_member(request.member_id, request.member)
            taken = [other.id for other in (*self.voters, *self.learners) if other.consensus == member.consensus]
            if taken:
                return f"{member.consensus} is the consensus endpoint of member {taken[0]}"
            self._contacts.learn(member)
            self._contacts.connect(now_ns)
            if not self._contacts.is_reachable(member.id):
                self._held = request
                return ""
        find = self._contacts.find
        named = NamedConfiguration(tuple(find(wanted.voter_ids)), tuple(find(wanted.learner_ids)))
        position = int(self._sequencer.append(named.encode(self._sequencer.leading_term_id, host.cluster_time)))
        if position <= 0:
            return "the log has no room at the moment; try again"
        self._is_in_flight = True
        self._request = position, request.correlation_id
        return ""

    def execute(self, position: int) -> bytes | None:
        """Execute a committed ConfigurationEvent. Return the answer for the operator who asked for it here, if any."""
        if self._request is None or position < self._request[0]:
            return None
        correlation_id, self._request = self._request[1], None
        return self._answer(correlation_id, "", position)

    def lose_leadership(self) -> bytes | None:
        """Forget the change under way; the next leader's log decides whether it takes effect."""
        self._is_in_flight = False
        if self._held is not None:
            correlation_id, self._held = self._held.correlation_id, None
        elif self._request is not None:
            correlation_id, self._request = self._request[1], None
        else:
            return None
        return self._answer(correlation_id, "the leadership was lost meanwhile; see `ordo cluster members`")

    def _answer(self, correlation_id: int, refusal: str, position: int = NULL_VALUE) -> bytes:
        return ordo_codecs.MEMBERSHIP_RESPONSE.encode(
            correlation_id=correlation_id,
            leader_member_id=self._core.leader_member_id,
            log_position=position,
            refusal=refusal,
        )
