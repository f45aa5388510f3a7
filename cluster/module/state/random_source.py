"""Random numbers for the consensus core."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random


class UniformDraws:
    """Seeded random numbers in the form that the consensus core takes."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def uniform_int(self, low: int, high: int) -> int:
        return self._random.randint(low, high)
