"""What a ConsensusCore is made of: its settings, what survived the last run, and its source of randomness."""

from dataclasses import dataclass, field
from typing import Protocol

from ordo.consensus.state.configuration import Configuration
from ordo.consensus.state.distrust import Distrust
from ordo.consensus.state.messages import NULL_MEMBER, Lead
from ordo.runtime.errors import ConfigurationError, ConsensusError
from ordo.runtime.native.time_units import MILLISECOND_NS


class UniformInts(Protocol):
    """The source of random numbers. It is seeded and passed in, so that a run can be repeated."""

    def uniform_int(self, low: int, high: int) -> int:
        """Return a number from low to high, both included."""
        ...


@dataclass(frozen=True)
class ConsensusSettings:
    """Settings of one member; all members of a cluster must agree on everything but `member_id`.

    `member_ids` contains `member_id`; those of them in `learner_ids`, at most eight, have no vote, and 1 to 7 others
    have one. Both hold until the log says otherwise. `appointed_leader_id`, if set, is the only member that may stand
    for election. Raises ConfigurationError on values that cannot work together.
    """

    member_id: int
    member_ids: tuple[int, ...]
    learner_ids: tuple[int, ...] = ()
    leader_heartbeat_timeout_ns: int = 500 * MILLISECOND_NS
    leader_heartbeat_interval_ns: int = 50 * MILLISECOND_NS
    election_timeout_ns: int = 250 * MILLISECOND_NS
    election_status_interval_ns: int = 20 * MILLISECOND_NS
    startup_canvass_timeout_ns: int = 5_000 * MILLISECOND_NS
    termination_timeout_ns: int = 10_000 * MILLISECOND_NS
    appointed_leader_id: int = NULL_MEMBER
    app_version: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "member_ids", tuple(sorted(self.member_ids)))
        object.__setattr__(self, "learner_ids", tuple(sorted(self.learner_ids)))
        self._check_members()
        self._check_times()

    def _check_members(self) -> None:
        ids = self.configuration.member_ids
        if not set(self.learner_ids) <= set(self.member_ids):
            raise ConfigurationError(f"learner_ids={self.learner_ids}: must be among member_ids={self.member_ids}")
        if self.member_id not in ids:
            raise ConfigurationError(f"member_id={self.member_id}: must be one of member_ids={ids}")
        if self.appointed_leader_id != NULL_MEMBER and self.appointed_leader_id not in ids:
            raise ConfigurationError(f"appointed_leader_id={self.appointed_leader_id}: must be one of {ids}, or unset")

    def _check_times(self) -> None:
        for name in (
            "leader_heartbeat_timeout_ns",
            "leader_heartbeat_interval_ns",
            "election_timeout_ns",
            "election_status_interval_ns",
            "startup_canvass_timeout_ns",
            "termination_timeout_ns",
        ):
            if getattr(self, name) <= 0:
                raise ConfigurationError(f"{name}={getattr(self, name)}: must be above 0")
        pairs = (
            ("leader_heartbeat_interval_ns", "leader_heartbeat_timeout_ns"),
            ("election_status_interval_ns", "election_timeout_ns"),
            ("election_status_interval_ns", "leader_heartbeat_timeout_ns"),
        )
        for interval, timeout in pairs:
            if 2 * getattr(self, interval) > getattr(self, timeout):
                raise ConfigurationError(
                    f"{interval}={getattr(self, interval)}: at most half of {timeout}={getattr(self, timeout)}"
                )

    @property
    def configuration(self) -> Configuration:
        """The configuration in force while the log has no record of members."""
        voter_ids = tuple(member_id for member_id in self.member_ids if member_id not in self.learner_ids)
        return Configuration(voter_ids, self.learner_ids)


@dataclass
class DurableState:
    """The state that a member finds on its disk.

    `terms` are the rows (term id, base position) of the term table, `append_position` the end of the log, scanned.
    A term's row is written when its first record is found in the log, so a row at or beyond `append_position` stands
    for a record that did not survive, and is left out. `commit_position` is a lower bound (the last snapshot, or 0);
    `known_position` is what it knew to be committed at another time, of use only to refuse what would lose it.
    `leads` are those who led terms, by term, as far as they were stored, or the terms' first records are there.
    `configuration` is what a snapshot at that position says of the members, or None. What the log beyond it says is
    reported through `ConsensusCore.on_configuration` before the start. `distrust` is what was lost of all this, so that
    the member may not vote.
    Raises ConsensusError where these contradict each other.
    """

    candidate_term_id: int = -1
    terms: list[tuple[int, int]] = field(default_factory=list)
    append_position: int = 0
    commit_position: int = 0
    configuration: Configuration | None = None
    distrust: Distrust = Distrust.NONE
    known_position: int = 0
    leads: dict[int, Lead] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 <= self.commit_position <= self.append_position:
            raise ConsensusError(
                f"commit_position={self.commit_position} must lie between 0 and append_position={self.append_position}:"
                " the log is shorter than what was committed; restore this member from a peer"
            )
        if self.append_position > 0 and not any(base < self.append_position for _, base in self.terms):
            raise ConsensusError(
                f"append_position={self.append_position} but the term table {self.terms} has no row below it:"
                " the log's terms are unknown; restore this member from a peer"
            )
