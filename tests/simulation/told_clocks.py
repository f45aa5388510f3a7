"""What the kernel of a simulated member tells of its clock: something else each time, by which it is known again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ordo.runtime.native.clock import VirtualClock
from ordo.runtime.native.kernel_clock import ClockQuality

if TYPE_CHECKING:
    from random import Random

    from ordo.cluster.module.state.own_member import OwnMember

SERIALS_OF_A_MEMBER = 1_000_000


class ToldClock(NamedTuple):
    """An answer: when it was given by the member's wall clock, and which term the member led then, or -1."""

    quality: ClockQuality
    term_id: int
    wall_ns: int


class KernelClock:
    """All that one member was told, through all its lives, by the estimate, which no other answer of the world has."""

    def __init__(self, member_id: int, random: Random) -> None:
        self.told: dict[int, ToldClock] = {}
        self._next = 1 + member_id * SERIALS_OF_A_MEMBER
        self._random = random

    def tell(self, member: OwnMember, clock: VirtualClock) -> ClockQuality | None:
        """The answer of now; at times there is none, as on systems that forbid the question."""
        random = self._random
        if random.random() < 0.1:
            return None
        is_synchronized, offset_ns, bound_ns = (
            random.random() < 0.8,
            random.randint(-9999, 9999),
            random.randrange(9999),
        )
        quality = ClockQuality(is_synchronized, offset_ns, self._next, bound_ns)
        term_id = member.leadership_term_id if member.is_leader else -1
        self.told[self._next] = ToldClock(quality, term_id, clock.epoch_ns())
        self._next += 1
        return quality
