"""Planted bugs that the simulation must find: proof that it can see."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from ordo.consensus import dispatch
from ordo.consensus.handlers import election, following
from ordo.consensus.handlers.verification import Comparison, Verdict
from ordo.consensus.state import quorum
from ordo.consensus.state.context import Context
from ordo.consensus.state.messages import NewLeadershipTerm
from tests.consensus.disk import Disk
from tests.consensus.node import SimulatedNode
from tests.consensus.test_simulation import run_seed
from tests.thorough import few_of

SEEDS_MAX = 100
FIRST_SEEDS = {"follow_leaders_of_lower_terms": 250}
"""Where a planted bug shows late, its search begins later."""

Plant = Callable[[pytest.MonkeyPatch], None]


def vote_for_older_logs(patch: pytest.MonkeyPatch) -> None:
    """Raft §5.4.1 broken."""
    patch.setattr(election, "compare_log", lambda *_: 0)
    patch.setattr(quorum, "compare_log", lambda *_: 0)


def follow_leaders_of_lower_terms(patch: pytest.MonkeyPatch) -> None:
    """Raft §5.1 broken: a canvassing member joins any leader that announces itself, as the protocol has it."""
    original = following.on_new_leadership_term

    def accept_any(ctx: Context, message: NewLeadershipTerm) -> None:
        if message.leadership_term_id >= ctx.log_term_id and ctx.candidate_term_id > message.leadership_term_id:
            ctx.candidate_term_id = message.leadership_term_id
        original(ctx, message)

    patch.setitem(dispatch.HANDLERS, NewLeadershipTerm, (accept_any, "leader_member_id"))


def skip_verification(patch: pytest.MonkeyPatch) -> None:
    """Raft §5.3 broken: every log is taken for a prefix of the leader's."""

    def always_prefix(*_: Any) -> Comparison:
        return Comparison(Verdict.PREFIX)

    patch.setattr(following, "compare_with_leader", always_prefix)


def acknowledge_what_is_not_durable(patch: pytest.MonkeyPatch) -> None:
    """Durability broken: positions are acknowledged before they are on disk."""
    original = SimulatedNode.begin_sync

    def begin_sync(self: SimulatedNode) -> None:
        original(self)
        self.report(self.disk.end_position)

    crash = Disk.crash

    def crash_losing_acknowledged(self: Disk, rng: Random) -> None:
        self.durable_position = self.entries[len(self.entries) // 2].start if self.entries else 0
        crash(self, rng)

    patch.setattr(SimulatedNode, "begin_sync", begin_sync)
    patch.setattr(Disk, "crash", crash_losing_acknowledged)


def serve_with_a_state_in_doubt(patch: pytest.MonkeyPatch) -> None:
    """A member whose service differs from the others' leads like any other."""
    patch.setattr(Context, "is_in_doubt", property(lambda self: False))


def stand_back_for_ever(patch: pytest.MonkeyPatch) -> None:
    """A member whose service is far behind never leads, whoever else could."""
    patch.setattr(Context, "stands_back", property(lambda self: self.is_in_doubt or self.lags))
    patch.setattr("ordo.consensus.handlers.election.last_resort_ns", lambda ctx: ctx.now_ns + 1)


SHOW_SOON = (vote_for_older_logs, skip_verification, acknowledge_what_is_not_durable, serve_with_a_state_in_doubt)
LATER = (follow_leaders_of_lower_terms, stand_back_for_ever)


@pytest.mark.parametrize("plant", few_of((*SHOW_SOON, *LATER), SHOW_SOON))
def test_planted_bug_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    first = FIRST_SEEDS.get(plant.__name__, 0)
    for seed in range(first, first + SEEDS_MAX):
        try:
            run_seed(seed)
        except AssertionError:
            return
    pytest.fail(f"{plant.__name__} was not found in {SEEDS_MAX} seeds from {first} on")
