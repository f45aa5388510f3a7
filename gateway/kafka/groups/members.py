"""A consumer group and its members, as the door that coordinates it knows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from ordo.gateway.kafka.service.orders import KafkaError

Reply = Callable[[Mapping[str, object]], None]
MEMBER_BYTES = 1_024
"""So much each member counts besides."""


class GroupState(Enum):
    """The state of a group, by the name that tools know."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


class Join(NamedTuple):
    """What a member says of itself when it joins."""

    member_id: str
    instance_id: str | None
    protocol_type: str
    protocols: Sequence[tuple[str, bytes]]
    session_timeout_s: float
    rebalance_timeout_s: float
    client_id: str
    host: str
    needs_id: bool
    """A member without an id is told one, and has to join again with it."""


@dataclass
class Member:
    """One member of a group."""

    join: Join
    deadline_s: float
    assignment: bytes = b""
    on_joined: Reply | None = None
    on_synced: Reply | None = None

    @property
    def held_bytes(self) -> int:
        """Return what it takes in memory, about."""
        return weigh(self.join) + len(self.assignment)


@dataclass
class Group:
    """One group."""

    group_id: str
    state: GroupState = GroupState.EMPTY
    generation: int = 0
    protocol_type: str = ""
    protocol: str = ""
    leader: str = ""
    members: dict[str, Member] = field(default_factory=dict)
    expected: dict[str, float] = field(default_factory=dict)
    """Ids that were given and have not joined yet, and until when."""
    begin_s: float = 0.0
    """A rebalance does not end before."""
    end_s: float = 0.0
    """It ends without those that have not joined again by then."""
    held_bytes: int = 0
    """What it counts for in the sum over all groups."""


def weigh(join: Join) -> int:
    """Return what a member's own words take in memory, about."""
    return MEMBER_BYTES + sum(len(name) + len(metadata) for name, metadata in join.protocols)


def join_failure(error: int, member_id: str) -> Mapping[str, object]:
    """Return the response to a member that cannot join."""
    return {"error_code": error, "generation_id": -1, "protocol_name": "", "leader": "", "member_id": member_id}


def stranger_error(group: Group | None, instance_id: str | None) -> int:
    """Return what one that is no member is told: a static one, whose place another process has taken, must not return.

    Two processes with one instance id would otherwise drive each other out for ever.
    """
    members = () if group is None or instance_id is None else group.members.values()
    is_taken = any(one.join.instance_id == instance_id for one in members)
    return KafkaError.FENCED_INSTANCE_ID if is_taken else KafkaError.UNKNOWN_MEMBER_ID


def choose_protocol(offers: Sequence[Sequence[tuple[str, bytes]]]) -> str:
    """Return the protocol that most members like best of those that all have."""
    common = set.intersection(*({name for name, _ in one} for one in offers))
    votes: dict[str, int] = {}
    for one in offers:
        best = next(name for name, _ in one if name in common)
        votes[best] = votes.get(best, 0) + 1
    return max(votes, key=lambda name: votes[name])
