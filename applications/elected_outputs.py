"""Outputs of a group of which one instance writes: the one that the log elects (docs/APPLICATIONS.md, active/passive).

The instance that opened the group's identity last writes. The position of that record is its generation: every output
names it, and the cluster executes only those that name the present one. An instance stands for election by opening the
identity with an incarnation of its own and the generation that it wants to end. The first such record in the log wins;
the others name a generation that is over, and change nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordo.applications.outputs import GroupRequests
from ordo.service_api.requests import NO_IDENTITY, Identity, OpenStatus

if TYPE_CHECKING:
    from ordo.cluster.wire import records


class ElectedRequests(GroupRequests):
    """The requests of an instance that writes only while the log says that it is the active one."""

    ends_generation: int | None = None
    """The generation that this instance stands to end; NO_IDENTITY: the group has none yet; None: it does not stand."""

    def attend_election(self, identity: Identity | None, *, is_writer_there: bool, is_up_to_date: bool) -> None:
        """Stands for election, or stops standing.

        `identity`: the group's, as the log has it. An instance that is far behind does not stand: it would be elected,
        and the outputs would wait for it.
        """
        is_own = identity is not None and identity.incarnation == self._incarnation
        if is_up_to_date and (is_own or not is_writer_there):
            self.ends_generation = NO_IDENTITY if identity is None else identity.open_position
        else:
            self.ends_generation = None

    def _send_open(self, now_ns: int) -> None:
        wanted = self.open_position if self._is_open else self.ends_generation
        if wanted is not None:
            self._known_position = wanted
            super()._send_open(now_ns)

    def on_opened(self, values: records.IdentityOpened, now_ns: int) -> None:
        """Handle the answer. SUPERSEDED and EXPIRED are ignored, because the log says so, too."""
        if values.status not in (OpenStatus.SUPERSEDED, OpenStatus.EXPIRED):
            super().on_opened(values, now_ns)
