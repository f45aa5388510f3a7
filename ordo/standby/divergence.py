"""Where the log of a former primary parts from that of the cluster that goes on with it, and what it has behind that.

Both are read, record by record, from the newest place on that both have and that is before where they part: a snapshot
of the folder, or where the log begins at one of the two. Everything before is alike then, since a record of a term at a
position has one log before it (docs/CONSENSUS.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ordo.cluster.wire.snapshots import container_snapshot
from ordo.follow.entries import EntryKind, LogEntry, decode_entry
from ordo.follow.executions import Executions
from ordo.runtime.errors import ClusterError, OrdoError, StorageError
from ordo.salvage.holdings import Recordings

if TYPE_CHECKING:
    from ordo.archive.segments.reader import RecordedMessage
    from ordo.cluster.wire.log_identity import Origin
    from ordo.runtime.io.storage import Storage
    from ordo.salvage.holdings import Findings

SHOWN_MAX = 20
"""So many records are printed; the file has all of them."""


class Successor(Protocol):
    """The cluster that goes on, as far as the comparison needs it."""

    @property
    def origin(self) -> Origin:
        """Its identity, and where in the log that begins."""

    @property
    def start_position(self) -> int:
        """Where the log that it still has begins."""

    def messages(self, position: int) -> Iterator[tuple[int, bytes]]:
        """Yield where each committed record behind a position ends, and the record."""


class SurplusRecord(NamedTuple):
    """A record that a former primary has and the cluster that goes on has not."""

    position: int
    """Where it ends."""
    number: int
    """The number of the message, as services saw it; 0: it has none."""
    session_id: int
    """-1: it is of no session."""
    kind: str
    """As `ordo log` names it; empty for a record that readers do not know."""

    def __str__(self) -> str:
        number = f" number={self.number}" if self.number else ""
        session = f" session={self.session_id}" if self.session_id >= 0 else ""
        return f"{self.position} {self.kind or 'other'}{number}{session}"


class Divergence(NamedTuple):
    """How two logs compare."""

    identity: str
    """That of the cluster that goes on."""
    position: int
    """Up to here both are alike."""
    end_position: int
    """Where the former primary's log ends."""
    committed_position: int
    """Up to here its member knew the log to be committed."""
    records: list[SurplusRecord]
    """What it has behind `position`."""

    @property
    def record_count(self) -> int:
        return len(self.records)

    @property
    def needs_order(self) -> bool:
        """Whether anything of it may have been told to anybody: the first records of leaders were not."""
        return any(one.kind != EntryKind.NEW_TERM.value for one in self.records)

    def describe(self, kept: str) -> dict[str, object]:
        """Return the comparison as JSON has it. `kept`: the archive that has the records."""
        records = [one._asdict() for one in self.records]
        return {**self._asdict(), "records": records, "count": self.record_count, "kept": kept}

    def lines(self, kept: str) -> Iterator[str]:
        """Yield the comparison for an operator. `kept`: the archive that has the records."""
        yield (
            f"this folder's log and that of the cluster with identity {self.identity[:12]} are alike up to "
            f"position={self.position}"
        )
        if not self.records:
            yield "this folder has nothing that the cluster has not"
            return
        kinds = Counter(one.kind or "other" for one in self.records)
        told = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        committed = max(self.position, min(self.committed_position, self.end_position))
        yield (
            f"this folder has {self.record_count} records more, up to position={self.end_position} ({told}); its "
            f"member knew them to be committed up to position={committed}"
        )
        yield from map(str, self.records[:SHOWN_MAX])
        if self.record_count > SHOWN_MAX:
            yield f"... and {self.record_count - SHOWN_MAX} more"
        yield f"they are kept in {kept}: `ordo log` prints it, and the pipeline reads it"


def compare_with(findings: Findings, directory: str, storage: Storage, successor: Successor) -> Divergence:
    """Compare the log of a stopped folder, as `examine` has read it, with that of the cluster that goes on.

    `directory`: the folder's archive. Raises ClusterError where the folder's log is damaged, or not one that the
    cluster goes on with, or the cluster has let go of what would be compared.
    """
    holding, recordings = findings.holding, Recordings(storage, directory)
    if findings.log is None:
        raise ClusterError("this folder has a snapshot alone, and no log: move it away, and begin with an empty one")
    if holding.damage:  # nobody knows what is behind it, and how much
        raise ClusterError(
            f"this folder's log is damaged behind position={holding.end_position} ({holding.damage}): nothing was "
            "changed. Keep the folder, and take that of another member, or begin with an empty one"
        )
    _check_identity(holding.origin, successor)
    position = _find_common_end(findings, recordings, successor)
    if successor.origin.position < position:
        raise ClusterError(
            f"the cluster with identity {successor.origin} does not go on with this folder's log: both have the same "
            f"up to position={position}, and it was that cluster before. Is it the former one that answers here?"
        )
    if holding.start_position > 0 and not any(one <= position for one in holding.snapshots):
        raise ClusterError(
            f"this folder has no snapshot before position={position}, from where the logs differ, and its log begins "
            f"at {holding.start_position}: move it away, and begin with an empty one"
        )
    records = list(_list_surplus(findings, recordings, position))
    identity = successor.origin.identity.hex()
    return Divergence(identity, position, holding.end_position, holding.committed_position, records)


def _check_identity(own: Origin | None, successor: Successor) -> None:
    if own is not None and own.identity == successor.origin.identity:
        raise ClusterError(
            f"what answers at --endpoints is of the cluster that this folder is of (identity {own}): the former "
            "primary, or a node that has not come to where the new cluster begins. Nothing was changed: give the "
            "ingress of the one that was promoted"
        )


def _find_common_end(findings: Findings, recordings: Recordings, successor: Successor) -> int:
    """Return where the last record ends that both have."""
    holding = findings.holding
    first = max(holding.start_position, successor.start_position)
    begins = {first, *(one for one in holding.snapshots if first < one < successor.origin.position)}
    for begin in sorted(begins, reverse=True):
        end = _walk(findings, recordings, successor, begin) if begin < holding.end_position else begin
        if end > begin:
            return end
    if successor.start_position > holding.start_position:  # what both had may have been before that
        raise ClusterError(
            f"the cluster with identity {successor.origin} has deleted its log up to position="
            f"{successor.start_position}, and behind that nothing is like this folder's, which ends at "
            f"{holding.end_position}: nothing is left to compare it with. Keep the folder, and begin with an empty one"
        )
    raise ClusterError(
        f"the cluster with identity {successor.origin} does not go on with this folder's log (identity "
        f"{holding.origin or 'none'}): they have no record in common between position={first} and "
        f"{holding.end_position}"
    )


def _walk(findings: Findings, recordings: Recordings, successor: Successor, begin: int) -> int:
    """Return where the last record ends that both have, of those behind a position."""
    common = begin
    theirs = successor.messages(begin)
    for own in _messages(findings, recordings, begin):
        if next(theirs, None) != (own.position, own.payload):
            break
        common = own.position
    return common


def _messages(findings: Findings, recordings: Recordings, begin: int) -> Iterator[RecordedMessage]:
    assert findings.log is not None
    return recordings.reader(findings.log.recording_id, begin).messages(findings.holding.end_position)


def _list_surplus(findings: Findings, recordings: Recordings, position: int) -> Iterator[SurplusRecord]:
    """Yield what the folder has behind a position, with the numbers that its services gave."""
    holding = findings.holding
    begin = max((one for one in holding.snapshots if one <= position), default=holding.start_position)
    executions = _load_executions(findings, recordings, begin)
    for message in _messages(findings, recordings, begin):
        entry = decode_entry(message.position, message.payload)
        marked: LogEntry | None = None if entry is None else executions.mark(entry)
        if message.position <= position:
            continue
        if marked is None:
            yield SurplusRecord(message.position, 0, -1, "")
        else:
            yield SurplusRecord(marked.position, marked.sequence, marked.session_id, marked.kind.value)


def _load_executions(findings: Findings, recordings: Recordings, begin: int) -> Executions:
    """Return what numbers messages from a snapshot on, or from the beginning of the log."""
    entry = next((one for one in findings.state.snapshots if one.is_valid and one.log_position == begin), None)
    if entry is None:
        return Executions(numbers=True, is_known=begin == 0)
    messages = (one.payload for one in recordings.reader(entry.service_recording_id).messages())
    try:
        return Executions(container_snapshot.decode(messages), numbers=True)
    except (OrdoError, StorageError):
        return Executions(is_known=False)
