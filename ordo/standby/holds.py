"""Who of several standbys may be promoted: they hold for a candidate, as voters vote, before it is.

    holding      a standby that meets a candidate stops copying, writes down for which promotion it holds, and then says
                 so, with how far its log goes; until the candidate takes it back, it holds for no other
    promotion    goes on once most of the standbys hold, and none of them has more than the candidate
    following    those that hold follow the promoted one as their primary, and so does one that meets it later

Two majorities have a standby in common, so of two candidates one can be promoted at most; and what is compared stands
still. An operator may say that a candidate is lost (`instead_of`): those that hold for it may hold for another then.
Every standby asks the others how they are (ordo.standby.others); nobody orders anything over the network.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ordo.cluster.module.state.folder_rows import Hold

if TYPE_CHECKING:
    from ordo.cluster.client.operator import MemberLook

NOBODY = -1
ALIVE_MS = 3_000
"""A primary that was heard within so long is taken to be alive."""


class Order(NamedTuple):
    """An operator's order that a standby be a candidate."""

    promotion: int
    instead_of: int = NOBODY
    """A candidate that is lost, as the operator says."""


class Seen(NamedTuple):
    """What one of several standbys says of itself."""

    member_id: int
    is_standby: bool
    """False: it was promoted, and is the member of a cluster."""
    promotion: int = 0
    candidate_id: int = NOBODY
    """It holds for this one, which may be itself."""
    instead_of: int = NOBODY
    term_id: int = -1
    """The term of the last record of its log."""
    position: int = -1
    """Its log ends here, for good while it holds; negative: it follows, or has not read its log to the end yet."""
    heard_ms: int = -1
    """How long ago its primary answered; negative: it has not."""
    group: int = 0
    """Stands for the ids that its node.toml names in [[standbys]]."""

    @property
    def is_candidate(self) -> bool:
        return self.is_standby and self.candidate_id == self.member_id

    @property
    def reach(self) -> tuple[int, int]:
        """How far its log goes: that of a later epoch goes further than any of an earlier one."""
        return self.term_id, self.position

    def holds_for(self, candidate: Seen) -> bool:
        """Return whether it holds for this candidate's present promotion, and knows how far it has the log."""
        same = (self.candidate_id, self.promotion) == (candidate.member_id, candidate.promotion)
        return self.is_standby and same and self.position >= 0

    def __str__(self) -> str:
        if not self.is_standby:
            return f"standby {self.member_id} was promoted"
        holds = "" if self.candidate_id == NOBODY else f", holds for {self.candidate_id}"
        return f"standby {self.member_id} has the log up to position={self.position} in term {self.term_id}{holds}"


def describe(seen: Seen) -> dict[str, int]:
    """Return what a standby says of itself as numbers, for those who look."""
    return {f"standby_{name}": int(value) for name, value in seen._asdict().items()}


def parse_seen(look: MemberLook) -> Seen | None:
    """Return what a look says of a standby; None for one that is none of several."""
    if look.values.get("standby_member_id", NOBODY) == NOBODY:
        return None
    member_id, is_standby, *more = (look.get(f"standby_{name}") for name in Seen._fields)
    return Seen(member_id, is_standby == 1, *more)


def next_hold(
    own_id: int, held: Hold | None, order: Order | None, seen: Mapping[int, Seen], *, is_decided: bool = False
) -> Hold | None:
    """Return for which promotion a standby holds from now on.

    `order`: that this one be a candidate. `seen`: the newest that each of the others said, as far as it answers.
    `is_decided`: this candidate is to be promoted, and takes nothing back.
    """
    if held is not None and held.candidate_id == own_id:
        if is_decided or (order is not None and order.promotion == held.promotion):
            return held
        held = None  # taken back
    if order is not None and (held is None or held.candidate_id == order.instead_of):
        return Hold(order.promotion, own_id)
    if held is None:
        return _find_candidate(own_id, seen)
    candidate = seen.get(held.candidate_id)
    if candidate is not None and candidate.is_candidate:
        return Hold(candidate.promotion, candidate.member_id)
    if candidate is not None and candidate.is_standby:
        return _find_candidate(own_id, seen)  # it has taken it back
    if candidate is not None:
        return held  # it was promoted
    return next((Hold(one.promotion, one.member_id) for one in _replacing(seen, held.candidate_id)), held)


def _replacing(seen: Mapping[int, Seen], lost_id: int) -> Iterable[Seen]:
    return (one for _, one in sorted(seen.items()) if one.is_candidate and one.instead_of == lost_id)


def _find_candidate(own_id: int, seen: Mapping[int, Seen]) -> Hold | None:
    """Return a hold for one that was promoted, or else for a candidate.

    Of two that were promoted, one without the other's knowledge, an operator has to choose.
    """
    others = [one for member_id, one in sorted(seen.items()) if member_id != own_id]
    promoted = [one for one in others if not one.is_standby]
    if promoted:
        return Hold(0, promoted[0].member_id) if len(promoted) == 1 else None
    return next((Hold(one.promotion, one.member_id) for one in others if one.is_candidate), None)


def find_life(others: Iterable[Seen]) -> str:
    """Return what shows that the primary is not gone, or an empty string."""
    heard = [one for one in others if one.is_standby and 0 <= one.heard_ms < ALIVE_MS]
    return "".join(f"answered standby {one.member_id} {one.heard_ms / 1000:g} s ago" for one in heard[:1])


def find_refusal(own: Seen, others: Iterable[Seen], count: int) -> str:
    """Return why a candidate, one of `count` standbys, may not be promoted, or an empty string.

    `others`: those that answer. Those that do not hold for it may have more; what they have more is lost to the new
    cluster, and they cannot follow it.
    """
    others = list(others)
    for one in others:
        if not one.is_standby:
            return f"{one}: this one follows it by itself"
        if one.group != own.group:
            return (
                f"standby {one.member_id} has other ids in [[standbys]] of its node.toml: they must be the same in all"
            )
    if not own.is_candidate:
        return (
            f"this standby holds for {own.candidate_id}; where that one is lost, give --instead-of {own.candidate_id}"
        )
    holding = [own, *(one for one in others if one.holds_for(own))]
    most = max(holding, key=lambda one: (one.reach, one is own))
    if most.reach > own.reach:
        return f"{most}, and this one up to position={own.position} in term {own.term_id}: give the command there"
    if len(holding) <= count // 2:
        elsewhere = "".join(f"; {one}" for one in others if one.candidate_id not in (NOBODY, own.member_id))
        return (
            f"only {len(holding)} of {count} standbys hold for this one, and {count // 2 + 1} are needed{elsewhere}: "
            "start the others, or leave [[standbys]] out of the file of the one that is to go on without them"
        )
    return ""
