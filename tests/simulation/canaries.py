"""A canary beside simulated applications: other code that only compares, and tells the cluster what it found."""

from __future__ import annotations

from collections.abc import Callable

from ordo.applications.application import AppMode
from ordo.applications.canary import Difference
from ordo.cluster.container.tables.consumers import ContainerConsumers
from ordo.cluster.wire.sessions.difference_codec import GROUP_DIFFERENCES_MAX, DifferenceKind, DifferenceReport
from ordo.service_api.service import Service
from tests.simulation.app_service import GROUP, OTHER_EACH, AppOutput, OtherCountingService
from tests.simulation.applications import SimulatedApplication
from tests.simulation.log_followers import FollowerWorld
from tests.simulation.writers import WriterWatch


class SimulatedCanary(SimulatedApplication):
    """The instance with other code."""

    def __init__(self, world: FollowerWorld, index: int, watch: WriterWatch) -> None:
        super().__init__(world, index, watch)
        self.mode = AppMode.CANARY
        self._found: set[tuple[int, int]] = set()
        """Where it has found a difference in any of its lives: position of the input, index of the output."""

    def _note_difference(self, one: Difference) -> None:
        self._found.add((one.input_position, one.output_index))

    def _code(self) -> dict[int, Callable[[], Service]]:
        return {1: OtherCountingService}

    def find_untold(self, members: list[ContainerConsumers]) -> str:
        """As for instances; and what members know of its differences, which must be what it told, the same at all."""
        if unreported := super().find_untold(members):
            return unreported
        assert self.application is not None
        differences = self.application.differences
        if differences.has_untold:
            return f"{self.name} has differences to tell"
        known = [member.differences.rows(GROUP) for member in members]
        if any(rows != known[0] for rows in known):
            return f"members know {[len(rows) for rows in known]} differences, not the same"
        there = {_identify(one) for one in known[0]}
        if lost := [one for one in differences.told if _identify(one) not in there]:
            return f"{self.name} has told of {lost[0]}, and {len(lost) - 1} more, which members do not know"
        untold = self._found - {(one.input_position, one.output_index) for one in known[0]}
        if untold and len(self._found) <= GROUP_DIFFERENCES_MAX:
            return f"{self.name} has found a difference at {min(untold)} that it does not tell"
        return next((f"{self.name}: {one} is none" for one in known[0] if not _is_true(one)), "")


def _identify(one: DifferenceReport) -> DifferenceReport:
    """Returns it without what only the record has."""
    return one._replace(session_id=0, timestamp=0, log_position=0, found=0)


def _is_true(one: DifferenceReport) -> bool:
    """The other code writes every third output otherwise, and no other."""
    written, canary = AppOutput.decode(one.written), AppOutput.decode(one.canary)
    return one.kind is DifferenceKind.PAYLOAD and written.count == canary.count and written.count % OTHER_EACH == 0
