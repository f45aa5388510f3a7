"""Each message has one number, the same on all members, and no number is left out or given twice."""

from __future__ import annotations

from tests.simulation.invariants.base import Invariant, WatchedWorld


class MessagesAreNumbered(Invariant):
    """Compares the numbers that service 0 of each member is given.

    Messages of a log of old releases may have none, from a snapshot on until the level of numbers comes, and begin anew
    behind the position of its record, once. Otherwise a number is passed over only where a record was left out, which
    no service sees.
    """

    name = "messages are numbered"

    def __init__(self, world: WatchedWorld) -> None:
        super().__init__(world)
        self._numbers: dict[int, int] = {}
        """By position."""
        self._end_position = 0
        self._last = 0
        """The number of the message that ends there."""
        self._highest = 0
        self._has_begun_anew = False

    def on_numbered(self, member_id: int, position: int, number: int) -> None:
        known = self._numbers.setdefault(position, number)
        if known != number:
            self.fail(f"node{member_id} numbers the message at {position} {number}, another member {known}")
        if position <= self._end_position:
            return
        if 0 < number <= self._highest:
            self.fail(f"the message at {position} has the number {number}, which an earlier one had")
        if number and self._last and not self._follows(number, position):
            self.fail(f"the message at {position} has the number {number}, the one before it {self._last}")
        self._end_position, self._last = position, number
        self._highest = max(self._highest, number)

    def on_answer_numbered(self, position: int, number: int | None) -> None:
        """A client was told the number of its request at a position, or that it is not known."""
        known = self._numbers.get(position)
        if number is not None and known is not None and number != known:
            self.fail(f"the answer to the message at {position} tells the number {number}, services were told {known}")

    def _follows(self, number: int, position: int) -> bool:
        if number == self._last + 1 or self.world.options.on_error == "restore":
            return True
        is_of_level = self._end_position < number - 1 < position and not self._has_begun_anew
        self._has_begun_anew = self._has_begun_anew or is_of_level
        return is_of_level
