"""Tells the operator when the cluster waits for members that may not vote (docs/ARCHITECTURE.md, Repair)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordo.consensus.state.states import ElectionState

if TYPE_CHECKING:
    from collections.abc import Callable

    from ordo.consensus.core import ConsensusCore

PATIENCE_NS = 10_000_000_000
"""How long an election may wait before it is worth a line."""


class TrustWatch:
    """Keeps one line in the error log, counted while it is true, when distrust keeps an election from ending."""

    def __init__(self, core: ConsensusCore, record_error: Callable[[str], object]) -> None:
        self._core = core
        self._record_error = record_error
        self._due_ns = 0

    def work(self, now_ns: int) -> None:
        """Check once; called with every slow tick."""
        core = self._core
        if core.state is not ElectionState.CANVASS or self._due_ns == 0:
            self._due_ns = now_ns + PATIENCE_NS
        elif now_ns >= self._due_ns:
            self._due_ns = now_ns + PATIENCE_NS
            finding = self._find()
            if finding:
                self._record_error(finding)

    def _find(self) -> str:
        core = self._core
        voters, untrusted = core.configuration.voter_ids, core.untrusted_members
        if core.unknown_terms:
            return (
                f"this member may have voted in a term it no longer knows, and waits for members {core.unknown_terms} "
                "to tell theirs: start them, or see `ordo cluster trust --help`"
            )
        if len(voters) - len(untrusted) < core.configuration.quorum_threshold:
            return (
                f"no leader can be elected: members {untrusted} of {list(voters)} lost what they had acknowledged; "
                "restore one from a copy, or see `ordo cluster trust --help`"
            )
        return ""
