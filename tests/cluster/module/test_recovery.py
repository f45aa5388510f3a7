"""What a member starts from when something of it is missing (docs/ARCHITECTURE.md, Repair)."""

from __future__ import annotations

from typing import Any

import pytest

from ordo.cluster.module.state.commit_note import COMMIT_NOTE_NAME, CommitNote
from ordo.cluster.module.state.state_store import StateStore, StoredState
from ordo.cluster.wire.counters.counter_types import ControlToggle
from ordo.consensus.state.distrust import Distrust
from ordo.runtime.errors import ClusterError
from ordo.runtime.native.clock import VirtualClock
from ordo.runtime.native.time_units import SECOND_NS
from tests.faults.logs import FRAME_ALIGNMENT, HEADER, PAD, frames_of, offsets
from tests.simulation.invariants.commit_is_noted import noted_position
from tests.simulation.lost_majority import told_position
from tests.simulation.nodes import SimulatedNode
from tests.simulation.options import Options
from tests.simulation.storage import SimulatedStorage
from tests.simulation.world import World

BOTH = Distrust.LOG | Distrust.VOTE


def stored(node: SimulatedNode) -> StoredState:
    return StateStore(SimulatedStorage(node.disk, VirtualClock()).open_metadata(node.state_path)).load()


def segment(node: SimulatedNode, recording_id: int, base: int = 0) -> Any:
    return node.disk.files[f"{node.archive_folder}/{recording_id}-{base}.rec"]


def cluster(nodes: int = 3, snapshots: int = 0, sync: str = "commit") -> tuple[World, SimulatedNode]:
    """A cluster that has written over several segments, and a member of it that was stopped in order."""
    world = World(1, Options(nodes=nodes, clients=1, operation_mean_ns=2_000_000, padding_max=3000, sync=sync))
    world.start()
    world.run(SECOND_NS)
    for _ in range(snapshots):
        leader = world.leader()
        assert leader is not None
        leader.module.counters.control_toggle.compare_and_set(ControlToggle.NEUTRAL, ControlToggle.SNAPSHOT)
        world.run(SECOND_NS // 2)
    node = next(one for one in world.nodes if nodes == 1 or not one.serves)
    node.close()
    world.run(SECOND_NS // 2)
    assert not node.is_alive
    return world, node


def end_of_messages(node: SimulatedNode, recording_id: int) -> int:
    """Where the last message of the first segment ends: a PAD before the next segment counts for no member."""
    position = end = 0
    contents = segment(node, recording_id).contents()
    for frame in frames_of(contents, len(contents)):
        length, _, _, frame_type, _ = HEADER.unpack_from(frame)
        position += -(-length // FRAME_ALIGNMENT) * FRAME_ALIGNMENT
        end = end if frame_type == PAD else position
    return end


def boot(node: SimulatedNode, forgot_vote: bool = False) -> Any:
    node.has_lost = True
    world = node.world
    assert isinstance(world, World)
    for invariant in world.invariants if forgot_vote else ():
        invariant.on_wiped(node)
    node.boot()
    assert node.is_alive
    return node.module


def demand_recovery(world: World, node: SimulatedNode) -> None:
    """It follows, and votes again."""
    for client in world.clients:
        client.is_working = False
    assert world.run(20 * SECOND_NS, lambda: node.module.core.distrust is Distrust.NONE and world.is_steady())
    assert stored(node).distrust is Distrust.NONE
    assert node.node is not None
    node.close()
    world.run(SECOND_NS)
    node.boot()
    assert node.module._recovery.findings == [], "nothing is damaged any more"
    assert world.run(20 * SECOND_NS, world.is_steady)


def test_a_flipped_bit_ends_the_log_before_its_message() -> None:
    world, node = cluster()
    log_id = stored(node).log_recording_id
    segment(node, log_id, 65536).flip_bit(40, 3)
    module = boot(node)
    assert module.core.distrust is Distrust.LOG is stored(node).distrust
    assert module.core.append_position == end_of_messages(node, log_id) > 65536 - 4096
    (finding,) = module._recovery.findings
    assert "is damaged at position=65536" in finding and "checksum" in finding
    assert segment(node, log_id, 65536), "the damaged tail stays until there is a leader to copy from"
    demand_recovery(world, node)


def test_a_missing_segment_ends_the_log_there() -> None:
    world, node = cluster()
    log_id = stored(node).log_recording_id
    del node.disk.files[f"{node.archive_folder}/{log_id}-65536.rec"]
    module = boot(node)
    assert module.core.append_position == end_of_messages(node, log_id) > 65536 - 4096
    assert "the segment file is missing" in module._recovery.findings[0]
    demand_recovery(world, node)


def test_damage_below_the_snapshot_is_found_by_a_check_of_the_whole_log() -> None:
    world, node = cluster(snapshots=1)
    segment(node, stored(node).log_recording_id).flip_bit(40, 3)
    section = node.config.node.model_copy(update={"check_log": True})
    node.config = node.config.model_copy(update={"node": section})
    assert boot(node).core.append_position == 0
    demand_recovery(world, node)


def test_a_segment_missing_below_the_snapshot_gives_the_snapshot_up_for_an_older_start() -> None:
    world, node = cluster(snapshots=1)
    state = stored(node)
    assert max(state.snapshots).log_position > 65536
    del node.disk.files[f"{node.archive_folder}/{state.log_recording_id}-0.rec"]
    module = boot(node)
    assert (module.core.append_position, module._recovery.log_position) == (0, 0)
    demand_recovery(world, node)
    assert node.started_position > 0, "once the log reaches it, the snapshot counts again"


def test_a_log_that_ends_below_its_snapshot_is_short() -> None:
    _, node = cluster(snapshots=1)
    state = stored(node)
    store = StateStore(SimulatedStorage(node.disk, VirtualClock()).open_metadata(node.state_path))
    newest = max(state.snapshots)
    store.put_snapshot(newest._replace(log_position=newest.log_position + (1 << 30)))
    module = boot(node)
    assert module.core.distrust is Distrust.LOG
    assert "a piece of it is missing" in module._recovery.findings[0]


def test_a_log_that_ends_below_what_was_committed_is_short() -> None:
    """A disk that lied: it forgot what it had reported as written."""
    world, node = cluster()
    note = CommitNote(SimulatedStorage(node.disk, VirtualClock()), str(node.config.cluster_dir))
    assert 0 < note.known_position <= boot(node).core.append_position
    node.kill()
    note.put(1 << 30)
    module = boot(node)
    assert module.core.distrust is Distrust.LOG is stored(node).distrust
    assert f"and was committed up to {1 << 30}" in module._recovery.findings[0]
    demand_recovery(world, node)


def lose_note(node: SimulatedNode) -> None:
    del node.disk.files[f"{node.config.cluster_dir}/{COMMIT_NOTE_NAME}"]


def test_where_the_note_is_lost_the_records_tell_what_was_committed() -> None:
    _, node = cluster()
    noted = noted_position(node)
    lose_note(node)
    module = boot(node)
    known = module._recovery.known_position
    assert 0 < known == told_position(node) == module.core._ctx.known_position
    assert abs(known - noted) < 4 * 3200, "all but what was on the way, or had just come"


def test_a_snapshot_that_is_newer_than_all_hints_is_no_less() -> None:
    _, node = cluster(snapshots=1)
    lose_note(node)
    module = boot(node)
    assert module._recovery.known_position <= module.core.append_position
    assert module.core.commit_position >= module._recovery.log_position > 0


def test_hints_that_are_damaged_count_for_nothing() -> None:
    _, node = cluster()
    lose_note(node)
    prefix = f"{node.archive_folder}/{stored(node).log_recording_id}-"
    for file in [file for path, file in node.disk.files.items() if path.startswith(prefix)]:
        content = file.contents()
        content = content[: next((at for at in range(0, len(content), 32) if not any(content[at : at + 4])), None)]
        for offset in offsets(list(frames_of(content, len(content)))):
            file.flip_bit(offset + 24, 0)
    assert boot(node)._recovery.known_position == 0


def test_without_syncs_the_records_tell_nothing_at_a_start() -> None:
    """A loss of power takes another part of the log of each member, and they go on with what is left."""
    _, node = cluster(sync="none")
    assert boot(node)._recovery.known_position == noted_position(node) > 0, "a kill takes nothing of the note"
    node.kill()
    lose_note(node)
    assert boot(node)._recovery.known_position == 0


def test_terms_below_the_snapshot_that_were_never_stored_are_found_in_the_snapshot() -> None:
    """Its log was lost and came again up to behind the snapshot; then it crashed before any row of it was stored."""
    world, node = cluster(snapshots=1)
    terms = stored(node).terms
    assert min(terms)[1] < max(stored(node).snapshots).log_position
    StateStore(SimulatedStorage(node.disk, VirtualClock()).open_metadata(node.state_path)).truncate_terms(0)
    module = boot(node)
    assert module.core.terms == terms == stored(node).terms
    demand_recovery(world, node)


def test_who_led_the_terms_is_stored_and_found_again_in_the_log() -> None:
    """A store of an earlier release does not have it."""
    world, node = cluster(snapshots=1)
    leads = stored(node).leads
    assert leads.keys() == dict(stored(node).terms).keys()
    store = node.disk.stores[node.state_path]
    for key in [key for key in store if key.startswith(b"lead/")]:
        del store[key]
    assert stored(node).leads == {}
    module = boot(node)
    assert stored(node).leads == leads == module._recovery.durable_state().leads
    demand_recovery(world, node)


@pytest.mark.parametrize("part", ["module_recording_id", "service_recording_id"])
def test_a_damaged_snapshot_is_left_for_an_older_one_and_made_anew(part: str) -> None:
    world, node = cluster(snapshots=2)
    older, newest = sorted(stored(node).snapshots)[-2:]
    segment(node, getattr(newest, part)).flip_bit(40, 3)
    module = boot(node)
    assert module._recovery.log_position == older.log_position
    assert module.core.distrust is Distrust.NONE, "nothing of the log is lost"
    assert not max(stored(node).snapshots).is_valid
    demand_recovery(world, node)
    remade = next(one for one in stored(node).snapshots if one.log_position == newest.log_position)
    assert remade.is_valid and remade.module_recording_id != newest.module_recording_id
    assert node.started_position == newest.log_position


def test_parts_of_different_states_are_no_snapshot() -> None:
    world, node = cluster(snapshots=2)
    older, newest = sorted(stored(node).snapshots)[-2:]
    store = StateStore(SimulatedStorage(node.disk, VirtualClock()).open_metadata(node.state_path))
    store.put_snapshot(newest._replace(service_recording_id=older.service_recording_id))
    module = boot(node)
    assert module._recovery.log_position == older.log_position
    assert f"the service's part is of log_position={older.log_position}" in module._recovery.findings[0]
    demand_recovery(world, node)


def test_a_recording_that_is_gone_leaves_the_vote() -> None:
    world, node = cluster()
    state = stored(node)
    for path in [path for path in node.disk.files if path.startswith(node.archive_folder)]:
        del node.disk.files[path]
    del node.disk.stores[f"{node.archive_folder}/catalog.mdb"]
    module = boot(node)
    assert module.core.distrust is Distrust.LOG
    assert (module.core.append_position, module.core.candidate_term_id) == (0, state.candidate_term_id)
    demand_recovery(world, node)


def test_snapshots_are_forgotten_with_their_recordings() -> None:
    """The numbers of recordings that are gone are given to others, which the store named in their place."""
    world, node = cluster(snapshots=1)
    assert stored(node).snapshots
    for path in [path for path in node.disk.files if path.startswith(node.archive_folder)]:
        del node.disk.files[path]
    del node.disk.stores[f"{node.archive_folder}/catalog.mdb"]
    module = boot(node)
    assert stored(node).snapshots == []
    assert any(text.startswith("the archive has not all recordings") for text in module._recovery.findings)
    demand_recovery(world, node)


def test_a_store_that_is_gone_takes_the_vote_along_and_leaves_the_log() -> None:
    world, node = cluster()
    end = node.log_end_acknowledged
    del node.disk.stores[node.state_path]
    module = boot(node, forgot_vote=True)
    assert module.core.distrust == BOTH
    assert module.core.append_position >= end > 0
    demand_recovery(world, node)


def test_an_empty_folder_rejoins_when_the_configuration_says_so() -> None:
    world, node = cluster()
    node.wipe()
    assert boot(node, forgot_vote=True).core.distrust == BOTH
    demand_recovery(world, node)


def test_nobody_can_give_back_what_a_single_member_lost() -> None:
    world, node = cluster(nodes=1)
    log_id = stored(node).log_recording_id
    segment(node, log_id, 65536).flip_bit(40, 3)
    before = segment(node, log_id, 65536).contents()
    node.has_disk_faults = True  # excuses its death
    node.boot()
    assert not node.is_alive
    assert any(ClusterError.__name__ in event and "no other member" in event for event in world.trace.events)
    assert segment(node, log_id, 65536).contents() == before
    assert stored(node).distrust is Distrust.NONE


def test_a_single_member_whose_store_is_gone_never_begins_another_log() -> None:
    """The first start leaves a new store behind, which is no reason for the second one to take the log for none."""
    world, node = cluster(nodes=1)
    end, log_id = node.log_end_acknowledged, stored(node).log_recording_id
    del node.disk.stores[node.state_path]
    node.has_disk_faults = True  # excuses its deaths
    for count in (1, 2):
        node.boot()
        assert not node.is_alive
        assert sum("restore the data folder from a copy" in event for event in world.trace.events) == count
    assert (stored(node).log_recording_id, stored(node).distrust) == (log_id, BOTH)
    StateStore(SimulatedStorage(node.disk, VirtualClock()).open_metadata(node.state_path)).put_distrust(Distrust.NONE)
    assert boot(node, forgot_vote=True).core.append_position >= end > 0, "`ordo cluster trust` goes on with the log"
