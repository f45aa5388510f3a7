"""What must hold in every simulated run: one file for each property."""

from __future__ import annotations

from tests.simulation.invariants.arrivals_are_of_the_log import ArrivalsAreOfTheLog
from tests.simulation.invariants.base import Invariant, WatchedWorld
from tests.simulation.invariants.checksums import Checksums
from tests.simulation.invariants.clocks_are_the_leaders import ClocksAreTheLeaders
from tests.simulation.invariants.commit_is_monotonic import CommitIsMonotonic
from tests.simulation.invariants.commit_is_noted import CommitIsNoted
from tests.simulation.invariants.commit_is_on_a_quorum import CommitIsOnAQuorum
from tests.simulation.invariants.configuration_is_of_the_log import ConfigurationIsOfTheLog
from tests.simulation.invariants.durable_before_acknowledged import DurableBeforeAcknowledged
from tests.simulation.invariants.evidence_is_kept import EvidenceIsKept
from tests.simulation.invariants.leader_completeness import LeaderCompleteness
from tests.simulation.invariants.leaders_have_votes import LeadersHaveVotes
from tests.simulation.invariants.log_matching import LogMatching
from tests.simulation.invariants.logs import LogCopy
from tests.simulation.invariants.lost_promises import LostPromises
from tests.simulation.invariants.members_agree_with_themselves import MembersAgreeWithThemselves
from tests.simulation.invariants.messages_are_numbered import MessagesAreNumbered
from tests.simulation.invariants.nothing_acknowledged_is_lost import NothingAcknowledgedIsLost
from tests.simulation.invariants.one_leader_a_term import OneLeaderATerm
from tests.simulation.invariants.only_older_copies_are_told import OnlyOlderCopiesAreTold
from tests.simulation.invariants.quorum_keeps_what_is_needed import QuorumKeepsWhatIsNeeded
from tests.simulation.invariants.reports_are_of_the_log import ReportsAreOfTheLog
from tests.simulation.invariants.schemas_are_of_the_log import SchemasAreOfTheLog
from tests.simulation.invariants.services_agree import ServicesAgree
from tests.simulation.invariants.snapshots_are_of_the_log import SnapshotsAreOfTheLog
from tests.simulation.invariants.snapshots_equal_replay import SnapshotsEqualReplay
from tests.simulation.invariants.state_machine_safety import StateMachineSafety
from tests.simulation.invariants.suspension_is_of_the_log import SuspensionIsOfTheLog
from tests.simulation.invariants.terms_are_kept import TermsAreKept
from tests.simulation.invariants.time_goes_on import TimeGoesOn

__all__ = [
    "ArrivalsAreOfTheLog",
    "Checksums",
    "ClocksAreTheLeaders",
    "CommitIsOnAQuorum",
    "Invariant",
    "MessagesAreNumbered",
    "ServicesAgree",
    "SnapshotsAreOfTheLog",
    "all_invariants",
]


def all_invariants(world: WatchedWorld) -> list[Invariant]:
    """New checks for one run, in the order in which they are asked."""
    known_chains: dict[int, int] = {}
    logs = [LogCopy(node, known_chains) for node in world.nodes]
    committed = CommitIsOnAQuorum(world)
    completeness = LeaderCompleteness(world, logs, committed, known_chains)
    return [
        LostPromises(world),
        DurableBeforeAcknowledged(world),
        OneLeaderATerm(world),
        LeadersHaveVotes(world),
        TermsAreKept(world),
        committed,
        CommitIsMonotonic(world),
        CommitIsNoted(world),
        StateMachineSafety(world),
        completeness,
        LogMatching(world, logs),
        NothingAcknowledgedIsLost(world),
        SnapshotsEqualReplay(world),
        EvidenceIsKept(world),
        OnlyOlderCopiesAreTold(world),
        QuorumKeepsWhatIsNeeded(world, completeness),
        Checksums(world),
        MembersAgreeWithThemselves(world),
        ConfigurationIsOfTheLog(world, logs, committed),
        SuspensionIsOfTheLog(world, logs),
        SnapshotsAreOfTheLog(world, logs),
        ClocksAreTheLeaders(world, logs),
        TimeGoesOn(world),
        MessagesAreNumbered(world),
        ArrivalsAreOfTheLog(world),
        *([ServicesAgree(world)] if world.options.services > 1 else []),
        *([SchemasAreOfTheLog(world)] if world.options.schemas else []),
        *([ReportsAreOfTheLog(world)] if world.options.applications else []),
    ]
