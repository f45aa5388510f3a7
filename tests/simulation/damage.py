"""What befalls the disk of a member while its process is dead, to be found at its next start."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from ordo.archive.segments.catalog import Catalog, RecordingDescriptor
from ordo.archive.segments.checkpoints import Checkpoints
from ordo.archive.segments.reader import RecordingReader
from ordo.archive.segments.recovery import base_of, segment_bases
from ordo.archive.segments.segments import segment_name
from ordo.cluster.module.state.state_store import StateStore, StoredState
from ordo.consensus.state.distrust import Distrust
from ordo.runtime.errors import CorruptFrameError, StorageError
from ordo.runtime.native.clock import VirtualClock
from ordo.runtime.native.sentinels import NULL_POSITION
from tests.simulation.storage import SimulatedFile, SimulatedStorage

if TYPE_CHECKING:
    from tests.simulation.nodes import SimulatedNode

HEADER_LENGTH = 32
PAGE_BYTES = 4096


class Loss(NamedTuple):
    """What was done; `forgets_vote`: the member cannot know which terms it voted in."""

    kind: str
    text: str
    forgets_vote: bool = False


Damage = Callable[["SimulatedNode", Random, RecordingDescriptor, int, int, str], "Loss | None"]


def stored_distrust(node: SimulatedNode) -> Distrust:
    """What the member itself knows to have lost, as its disk has it."""
    with node.readable_disk():
        state = _state(node)
    return Distrust.NONE if state is None else state.distrust


def lose(node: SimulatedNode, random: Random, may_forget_vote: bool) -> Loss | None:
    """Damages something that the member had promised to keep; None when there is nothing to damage."""
    kinds = ("bit", "bit", "bit", "segment", "segment", "snapshot", "wipe", "state")
    kind = random.choice(kinds if may_forget_vote else kinds[:-2])
    if kind == "wipe":
        node.wipe()
        return Loss("disk wiped", f"{node.name} wiped", forgets_vote=True)
    if kind == "state":
        node.disk.stores.pop(node.state_path, None)
        return Loss("state store lost", f"{node.name} lost its store of votes and terms", forgets_vote=True)
    with node.readable_disk():
        return lose_snapshot(node, random) if kind == "snapshot" else lose_log(node, random, kind)


def lose_log(node: SimulatedNode, random: Random, kind: str) -> Loss | None:
    """A bit of what is read at a start, or a segment file: below what a crash cannot have torn."""
    storage, state = storage_of(node), _state(node)
    descriptor = None if state is None else _descriptor(node, state.log_recording_id)
    if state is None or descriptor is None:
        return None
    end = _safe_end(node, descriptor)
    is_all_read = node.config.node.check_log
    first = descriptor.start_position
    start = first if is_all_read else max([first, *(entry.log_position for entry in state.snapshots if entry.is_valid)])
    bases = [
        base for base in segment_bases(storage, node.archive_folder, descriptor.recording_id) if start <= base < end
    ]
    if kind == "segment":
        if not bases:
            return None
        base = random.choice(bases)
        path = f"{node.archive_folder}/{segment_name(descriptor.recording_id, base)}"
        del node.disk.files[path]
        return Loss("segment lost", f"{node.name} lost {path}")
    return flip(node, random, descriptor, start, end, "bit rotten")


def lose_snapshot(node: SimulatedNode, random: Random) -> Loss | None:
    """A bit of the newest snapshot, of the service's or the consensus module's part."""
    state = _state(node)
    valid = [] if state is None else [entry for entry in state.snapshots if entry.is_valid]
    if not valid:
        return None
    entry = max(valid)
    descriptor = _descriptor(node, random.choice(entry.recording_ids))
    if descriptor is None or descriptor.is_active:
        return None
    return flip(node, random, descriptor, 0, descriptor.stop_position, "snapshot rotten")


def flip(
    node: SimulatedNode, random: Random, descriptor: RecordingDescriptor, start: int, end: int, kind: str
) -> Loss | None:
    """Flips a bit of a frame, in its header or payload."""
    position = _draw_position(node, random, descriptor, start, end)
    if position is None:
        return None
    file, offset = _place(node, descriptor, position)
    file.flip_bit(offset, random.randrange(8))
    return Loss(kind, f"{node.name} bit rot in recording {descriptor.recording_id} at {position}")


def _fault_of_page(damage: Callable[[SimulatedFile, int], object], what: str) -> Damage:
    """Something happens to a page of the log, all of it below `end`. It is not one in which the others' logs begin:
    nobody could give the frames of its first part."""

    def make(
        node: SimulatedNode, random: Random, descriptor: RecordingDescriptor, start: int, end: int, kind: str
    ) -> Loss | None:
        position = _draw_page(node, random, descriptor, start, end)
        if position is None:
            return None
        damage(*_place(node, descriptor, position))
        return Loss(kind, f"{node.name} page of recording {descriptor.recording_id} {what} at {position}")

    return make


break_page = _fault_of_page(SimulatedFile.break_page, "unreadable")
"""It cannot be read any more."""
lose_write = _fault_of_page(SimulatedFile.lose_write, "never written")
"""The device said yes to it, and wrote nothing."""
make_stale = _fault_of_page(SimulatedFile.make_stale, "reads old")
"""The device gives it back as it was before it was written."""


def misdirect(
    node: SimulatedNode, random: Random, descriptor: RecordingDescriptor, start: int, end: int, kind: str
) -> Loss | None:
    """The device wrote a page of the log over another one of the same file."""
    position = _draw_page(node, random, descriptor, start, end)
    if position is None:
        return None
    base, own = base_of(descriptor, position), position // PAGE_BYTES * PAGE_BYTES
    first, last = max(base, start + PAGE_BYTES - 1), min(base + descriptor.segment_length, end) - PAGE_BYTES
    pages = range(first // PAGE_BYTES * PAGE_BYTES, last + 1, PAGE_BYTES)
    others = [one for one in pages if one != own]
    if not others:
        return None
    target = random.choice(others)
    file, offset = _place(node, descriptor, position)
    file.misdirect(offset, target - base)
    return Loss(kind, f"{node.name} page of recording {descriptor.recording_id} at {position} written at {target}")


def _draw_page(
    node: SimulatedNode, random: Random, descriptor: RecordingDescriptor, start: int, end: int
) -> int | None:
    """A position in a page all of which is below `end`, and not one in which the others' logs begin."""
    position = _draw_position(node, random, descriptor, start, end)
    if position is None:
        return None
    page = position // PAGE_BYTES * PAGE_BYTES
    if page + PAGE_BYTES > end or page < start != descriptor.start_position:
        return None
    return position


def _place(node: SimulatedNode, descriptor: RecordingDescriptor, position: int) -> tuple[SimulatedFile, int]:
    """The file with a position of a recording, and the offset in it."""
    base = base_of(descriptor, position)
    path = f"{node.archive_folder}/{segment_name(descriptor.recording_id, base)}"
    return node.disk.files[path], position - base


def _draw_position(
    node: SimulatedNode, random: Random, descriptor: RecordingDescriptor, start: int, end: int
) -> int | None:
    """A byte of a frame with a payload; None where there is none, or where reading meets damage."""
    reader = RecordingReader(storage_of(node), node.archive_folder, descriptor, start)
    try:
        messages = [(one.start_position, len(one.payload)) for one in reader.messages(end) if one.payload]
    except (CorruptFrameError, StorageError):
        return None
    if not messages:
        return None
    first, length = random.choice(messages)
    return first + random.randrange(min(HEADER_LENGTH + length, descriptor.mtu))


def _safe_end(node: SimulatedNode, descriptor: RecordingDescriptor) -> int:
    """Damage below this is told from a torn end: the stop position, or what was noted to be on the device."""
    if not descriptor.is_active:
        return descriptor.stop_position
    return Checkpoints.load(storage_of(node), node.archive_folder).get(descriptor.recording_id, 0)


def _state(node: SimulatedNode) -> StoredState | None:
    """None when the store is not there: to open it would make it."""
    if node.state_path not in node.disk.stores:
        return None
    return StateStore(storage_of(node).open_metadata(node.state_path)).load()


def _descriptor(node: SimulatedNode, recording_id: int) -> RecordingDescriptor | None:
    if recording_id == NULL_POSITION:
        return None
    catalog = Catalog.open(storage_of(node), node.archive_folder, read_only=True)
    return next((one for one in catalog if one.recording_id == recording_id), None)


def storage_of(node: SimulatedNode) -> SimulatedStorage:
    return SimulatedStorage(node.disk, VirtualClock())
