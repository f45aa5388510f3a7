"""A canary: an instance with other code that executes a group's log, writes nothing, and compares its outputs.

An output is known by what it answers: the position of the input, and the index among the outputs to it. The group
writes its outputs in that order, so one pass over the log compares them (docs/APPLICATIONS.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ordo.applications.app_executor import AppExecutor
from ordo.applications.app_versions import AppVersions
from ordo.applications.outputs import GroupRequests, Output
from ordo.cluster.wire.sessions.difference_codec import DifferenceKind
from ordo.follow.entries import LogEntry
from ordo.service_api.service import Service

UNMATCHED_MAX = 8192
"""So many outputs of the canary may wait for those of the group; the oldest beyond that count as differences."""


class SilentRequests(GroupRequests):
    """The requests of an instance that never writes: it does not open the group's identity."""

    def _send_open(self, now_ns: int) -> None:
        pass


class Difference(NamedTuple):
    """An output that the canary and the group did not write alike."""

    input_position: int
    """After the record that it answers."""
    output_index: int
    """Among the outputs to this record, from 0."""
    written: Output | None
    """What the group wrote; None: nothing."""
    made: Output | None
    """What the canary would have written; None: nothing."""

    @property
    def kind(self) -> DifferenceKind:
        """Return how the two are different; another id counts as another payload."""
        if self.written is None:
            return DifferenceKind.ADDED
        if self.made is None:
            return DifferenceKind.MISSING
        is_for_another = self.made.target_session_id != self.written.target_session_id
        return DifferenceKind.TARGET if is_for_another else DifferenceKind.PAYLOAD


class CanaryExecutor(AppExecutor):
    """Executes the log as an instance of the group does, and continues when its outputs differ."""

    IS_CANARY = True

    def __init__(
        self,
        service: Service | AppVersions,
        group: str,
        snapshot: Iterable[bytes] | None = None,
        *,
        on_difference: Callable[[Difference], object],
    ) -> None:
        """Call `on_difference` for each difference, in the order of inputs. Raises SnapshotError."""
        super().__init__(service, group, snapshot)
        self._on_difference = on_difference

    def execute(self, entry: LogEntry) -> None:
        """See AppExecutor."""
        super().execute(entry)
        while len(self.cluster.pending) > UNMATCHED_MAX:
            self._tell(None, self.cluster.pending.popleft())

    def _take_output(self, found: Output) -> None:
        pending, place = self.cluster.pending, _place(found)
        while pending and _place(pending[0]) < place:
            self._tell(None, pending.popleft())
        made = pending.popleft() if pending and _place(pending[0]) == place else None
        if made is None or made[3:] != found[3:]:
            self._tell(found, made)

    def _on_app_version(self, entry: LogEntry) -> None:
        """Its code is its own."""

    def _forget_confirmed(self) -> None:
        """Forget outputs once they have been compared."""

    def _tell(self, written: Output | None, made: Output | None) -> None:
        one = written or made
        assert one is not None
        self._on_difference(Difference(*_place(one), written, made))


def _place(output: Output) -> tuple[int, int]:
    return output.input_position, output.output_index
