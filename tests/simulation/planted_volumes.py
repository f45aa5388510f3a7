"""Planted bugs of members that do not look whose data they have (see `planted.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ordo.cluster.module.consensus_module import ConsensusModule
from ordo.cluster.module.members import standings
from ordo.cluster.module.members.standings import Standings
from ordo.cluster.module.state import folder_rows, recovery
from ordo.cluster.module.state.commit_note import CommitNote
from ordo.cluster.module.state.folder_rows import NO_START, FolderRows
from ordo.cluster.module.state.recovery import NO_LIMIT, Recovery
from ordo.cluster.node import node
from ordo.consensus.handlers import leading, leads
from ordo.consensus.state import transitions
from ordo.consensus.state.context import Context
from ordo.runtime.native.memory import allocate
from ordo.runtime.native.sentinels import NULL_POSITION
from ordo.sequencer.commit_slots import CommitSlots
from ordo.sequencer.log_terms import read_terms
from tests.simulation.invariants import commit_is_noted

Patch = Callable[[Any, str, Any], None]
NOTE_LENGTH = 64
NOTE_INTERVAL_NS = 100_000_000


def any_folder_is_taken(patch: Patch) -> None:
    """A member starts with the folder of another one."""

    def claim(rows: FolderRows, owner: Any, folder: str, draw: int, *, is_standby: bool = False) -> Any:
        rows.put_owner(owner)
        return folder_rows.claim(rows, owner, folder, draw, is_standby=is_standby)

    patch(node, "claim", claim)


def another_clusters_log_counts(patch: Patch) -> None:
    """Members take part with the log of another cluster."""
    patch(standings, "are_of_two_clusters", lambda one, other: False)


def what_was_seen_of_a_wrong_folder_is_held_against_the_right_one(patch: Patch) -> None:
    """A member without a log compares the starts of two clusters' folders, and refuses a member for good."""
    patch(Standings, "_known_start", lambda self, member_id, shown: self._starts.get(member_id, NO_START))


def older_data_counts(patch: Patch) -> None:
    """A member that was started with an older copy of its data votes as if it had all of it."""
    original = Standings.admits

    def admits(self: Standings, values: Any) -> bool:
        self._starts[values.member_id] = NO_START
        return original(self, values._replace(previous_number=0, previous_draw=0))

    patch(Standings, "admits", admits)


def what_was_acknowledged_is_forgotten_by_a_restart(patch: Patch) -> None:
    """A member that starts again knows of no position that the others had, and takes an older copy for all of it."""
    original = Standings.__init__

    def forget(self: Standings, *arguments: Any) -> None:
        original(self, *arguments)
        self._acknowledged.clear()

    patch(Standings, "__init__", forget)


def a_log_that_is_whole_again_is_compared_with_what_was_left_of_it(patch: Patch) -> None:
    """Whoever did not hear that a member lacked a part of its log tells it so once it has it again."""
    patch(Standings, "on_distrust", lambda self, distrust: distrust)


def positions_are_not_compared(patch: Patch) -> None:
    """A member that comes back with less than it had acknowledged, in a start that the others know, counts."""
    patch(Standings, "_find_lost", lambda self, member_id, start_point: None)


def the_end_of_a_log_is_believed(patch: Patch) -> None:
    """A member whose log ends below what it has written down as committed takes it for whole."""
    patch(Recovery, "_check_end", lambda self, known_position: None)


def log_that_was_committed_is_given_up(patch: Patch) -> None:
    """A member has its log cut below what it has written down as committed, if a leader lacks it."""
    original = transitions.begin_truncation

    def begin_truncation(ctx: Context, position: int, reason: str) -> None:
        ctx.known_position = 0
        original(ctx, position, reason)

    patch(transitions, "begin_truncation", begin_truncation)


def commits_are_noted_now_and_then(patch: Patch) -> None:
    """What is known to be committed is written down with every tick of 100 ms, and a kill takes what came since."""
    original, slow_tick = CommitNote.__init__, ConsensusModule.slow_tick

    def open_note(self: Any, *arguments: Any) -> None:
        original(self, *arguments)
        self.durable, self.due_ns = self.slots, 0
        self.slots = CommitSlots(allocate(NOTE_LENGTH), 0, self.known_position)

    def tick(self: Any, now_ns: int) -> None:
        note = self.base.seams.committed
        if now_ns >= note.due_ns:
            note.due_ns = now_ns + NOTE_INTERVAL_NS
            note.durable.note(note.slots.position)
        slow_tick(self, now_ns)

    patch(CommitNote, "__init__", open_note)
    patch(ConsensusModule, "slow_tick", tick)
    patch(commit_is_noted, "noted_position", lambda node: NO_LIMIT)


def what_records_tell_is_not_believed(patch: Patch) -> None:
    """A member whose note was lost does not look at what its log says was committed."""
    patch(recovery, "read_terms", lambda reader, limit: (read_terms(reader, limit)[0], NULL_POSITION))


def nobody_tells_who_led_an_earlier_term(patch: Patch) -> None:
    """A leader says of its own term alone who led it: what another one led of an earlier one counts as the same log."""
    patch(leading, "find_log_lead", lambda ctx, leadership_term_id: None)


def whoever_led_a_term_its_log_is_the_same(patch: Patch) -> None:
    """A member follows a leader whose log has the same terms from the same positions on."""
    patch(leads, "demand_one_lead", lambda ctx, message: None)
