"""What helpers are given of their member: Protocols of the calls that they make, and parts that go together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from ordo.archive.archive import Archive
    from ordo.cluster.module.state.peers import Contacts
    from ordo.cluster.module.state.transfer import LeadershipTransfer
    from ordo.consensus.core import ConsensusCore
    from ordo.sequencer.sequencer import Sequencer
    from ordo.transport.client.client import TransportClient


@dataclass(frozen=True)
class Replication:
    """One member's part in the replicated log: what consensus decides, the log stream, and the other members."""

    core: ConsensusCore
    sequencer: Sequencer
    contacts: Contacts


@dataclass(frozen=True)
class ArchiveAccess:
    """A member's archive, and the transport client whose streams it records and replays."""

    archive: Archive
    client: TransportClient


class Orders(NamedTuple):
    """What parts have others do."""

    ask_snapshot: Callable[[], bool]
    """Has the members take a snapshot; False where they cannot now."""
    ask_copied: Callable[[], bool]
    """Has standbys take one that the members copy; False where the leader cannot order it now."""
    order_record: Callable[[bytes], bool]
    """Sends a RecordOrder to the services; False where it cannot now."""
    answer_tool: Callable[[bytes], None]
    """Answers the tool or the operator that asked."""


class TermHost(Protocol):
    """A member that appends its own records, or waits for those of its leader."""

    @property
    def is_leader(self) -> bool: ...
    @property
    def leadership_term_id(self) -> int: ...
    @property
    def cluster_time(self) -> int: ...


class AppendingHost(TermHost, Protocol):
    """A member that appends its own records while it leads."""

    def append(self, record: bytes) -> bool:
        """Append a record as the serving leader. Returns False while nothing is sequenced."""


class SpeakingHost(Protocol):
    """A member that reports events."""

    def record_error(self, message: str) -> None: ...

    def announce(self, event: str, text: str) -> None:
        """Write one line to the log of the process."""


class MemberHost(SpeakingHost, Protocol):
    """The member, as most helpers see it; they add what else they need."""

    transfer: LeadershipTransfer

    def start_again(self, reason: str) -> None:
        """End the member and start it again from its store."""
