"""Tells the operator why a member that has found a leader does not get its log (docs/ACCIDENTS.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordo.consensus.state.states import ElectionState

if TYPE_CHECKING:
    from collections.abc import Callable

    from ordo.cluster.module.state.peers import Contacts
    from ordo.consensus.core import ConsensusCore
    from ordo.sequencer.sequencer import Sequencer

PATIENCE_NS = 5_000_000_000
"""How long a replay may be on its way before it is worth a line."""


class JoinWatch:
    """Keeps one line in the error log, counted while it is true."""

    def __init__(
        self,
        core: ConsensusCore,
        sequencer: Sequencer,
        contacts: Contacts,
        record_error: Callable[[str], object],
    ) -> None:
        self._core = core
        self._sequencer = sequencer
        self._contacts = contacts
        self._record_error = record_error
        self._waited_ns = 0
        self._worked_ns = 0
        self._position = -1

    def work(self, now_ns: int) -> None:
        """Check once; called with every slow tick. Changing leaders does not restart the wait."""
        core, passed_ns = self._core, now_ns - self._worked_ns
        self._worked_ns = now_ns
        if core.state is ElectionState.CLOSED or core.append_position != self._position:
            self._position, self._waited_ns = core.append_position, 0
        elif core.state is ElectionState.FOLLOWER_CATCHUP_AWAIT:
            self._waited_ns += passed_ns
        if self._waited_ns >= PATIENCE_NS:
            self._waited_ns = 0
            self._record_error(self._describe())

    def _describe(self) -> str:
        core, committed = self._core, self._sequencer.notified_position
        leader_id, position = core.leader_member_id, core.append_position
        waits = f"this member waits for the log from position={position} on, which member {leader_id} does not send"
        if committed < position:
            return (
                f"{waits}: that leads, and its log is committed up to {committed} only, less than this member has. If "
                "data of the other members was lost or exchanged, stop them, keep this member's folder, and start them "
                "with an empty one and `--rejoin` while it runs; see `ordo cluster trust --help` if most are lost"
            )
        return (
            f"{waits}: check that member {leader_id} runs well (`ordo errors`), and that its datagrams reach "
            f"{self._contacts.own.catchup}"
        )
