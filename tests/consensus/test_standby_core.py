"""The core of a standby commits what its log has, and takes no part in anything else."""

from __future__ import annotations

from random import Random

from ordo.cluster.module.state.random_source import UniformDraws
from ordo.consensus.standby import StandbyCore
from ordo.consensus.state.commands import Commit, PersistTerm
from ordo.consensus.state.configuration import Configuration
from ordo.consensus.state.messages import NULL_MEMBER, RequestVote
from ordo.consensus.state.settings import ConsensusSettings, DurableState
from ordo.consensus.state.states import ElectionState

S = 1_000_000_000


def make_core(durable: DurableState | None = None) -> StandbyCore:
    settings = ConsensusSettings(member_id=9, member_ids=(9,))
    core = StandbyCore(settings, durable or DurableState(), UniformDraws(Random(1)))
    core.start(S)
    return core


def test_what_is_copied_is_committed_over_terms_that_others_led() -> None:
    core = make_core()
    core.on_new_term(3, 0)
    core.on_appended(640, 2 * S)
    core.on_new_term(7, 640)
    core.on_new_term(8, 960)
    core.on_appended(1280, 2 * S)
    found = core.take_commands()
    assert [one.position for one in found if isinstance(one, Commit)] == [640, 1280]
    assert [one.leadership_term_id for one in found if isinstance(one, PersistTerm)] == [3, 7, 8]
    assert (core.commit_position, core.terms) == (1280, [(3, 0), (7, 640), (8, 960)])


def test_what_it_had_before_a_start_is_committed() -> None:
    core = make_core(DurableState(4, [(4, 0)], append_position=4096, commit_position=1024))
    assert core.take_commands() == [Commit(4096)]


def test_it_neither_stands_nor_votes_however_long_it_hears_nothing() -> None:
    core = make_core(DurableState(4, [(4, 0)], append_position=4096))
    core.take_commands()
    for second in range(2, 200):
        core.on_message(RequestVote(4, 9000, 6, 1), second * S)
        core.tick(second * S)
    assert core.take_commands() == []
    assert core.state is ElectionState.INIT and core.leader_member_id == NULL_MEMBER and not core.is_leading
    assert core.configuration == Configuration((9,))
