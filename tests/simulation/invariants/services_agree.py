"""The services of a node are replicated each for itself: state-machine safety of the services 1, 2, ..."""

from __future__ import annotations

from bisect import bisect_right

from tests.simulation.invariants.base import Invariant, WatchedWorld


class ServicesAgree(Invariant):
    """The first member to execute a position decides what state a service has there; nobody leaves one out, and a
    snapshot gives the state of its position back."""

    name = "services agree"

    def __init__(self, world: WatchedWorld) -> None:
        super().__init__(world)
        self._positions: dict[int, list[int]] = {}
        """By service: where records end that it has executed."""
        self._digests: dict[int, dict[int, str]] = {}
        self._next: dict[tuple[int, int], int] = {}

    def on_other_started(self, member_id: int, service_id: int, position: int, digest: str) -> None:
        positions = self._positions.setdefault(service_id, [])
        digests = self._digests.setdefault(service_id, {})
        index = bisect_right(positions, position)
        self._next[member_id, service_id] = index
        known = digests[positions[index - 1]] if index else ""
        if digest != known:
            self.fail(f"node{member_id} service {service_id} starts at {position} with {digest}, known is {known}")

    def on_other_executed(self, member_id: int, service_id: int, position: int, digest: str) -> None:
        positions, digests = self._positions[service_id], self._digests[service_id]
        index = self._next[member_id, service_id]
        self._next[member_id, service_id] = index + 1
        if index == len(positions):
            positions.append(position)
            digests[position] = digest
        elif (positions[index], digests[positions[index]]) != (position, digest):
            self.fail(
                f"node{member_id} service {service_id} executed {position} (state {digest}), another member "
                f"{positions[index]} (state {digests[positions[index]]})"
            )
