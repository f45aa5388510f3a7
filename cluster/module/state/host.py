"""Protocols of the calls that helpers make on their member."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ordo.cluster.module.state.transfer import LeadershipTransfer


class TermHost(Protocol):
    """The member that appends records of its own, or that waits for those of its leader."""

    @property
    def is_leader(self) -> bool: ...
    @property
    def leadership_term_id(self) -> int: ...
    @property
    def cluster_time(self) -> int: ...


class AppendingHost(TermHost, Protocol):
    """The member that puts records of its own into the log while it leads."""

    def append(self, record: bytes) -> bool:
        """Append a record as the serving leader. Returns False while nothing is sequenced."""


class MemberHost(Protocol):
    """The member, as its consensus module shows it to its helpers; they add what else they need."""

    transfer: LeadershipTransfer

    def record_error(self, message: str) -> None: ...

    def announce(self, event: str, text: str) -> None: ...

    def start_again(self, reason: str) -> None:
        """End the member and start it again from its store."""
