"""Planted bugs that the exploration must find, beside those of the simulation that concern the core."""

from __future__ import annotations

from typing import NamedTuple

from tests.exploration.member import ExploredMember
from tests.simulation.planted import Patch
from tests.simulation.plants import BY_NAME, Plant


def votes_are_not_durable(patch: Patch) -> None:
    """Raft §5: a member answers before its vote is on disk."""
    patch(ExploredMember, "_do_PersistCandidateTerm", lambda *_: None)


class Planted(NamedTuple):
    """A planted bug, where it is looked for, and how short the way to it is."""

    plant: Plant
    bounds: str
    steps_max: int


PLANTED = (
    Planted(votes_are_not_durable, "elections", 4),
    Planted(BY_NAME["two_votes_in_a_term"], "elections", 5),
    Planted(BY_NAME["candidates_stand_in_a_term_that_they_know"], "elections", 6),
    Planted(BY_NAME["a_minority_elects"], "elections", 4),
    Planted(BY_NAME["refusals_count_as_votes"], "elections", 6),
    Planted(BY_NAME["older_logs_are_voted_for"], "truncation", 4),
    Planted(BY_NAME["positions_before_terms"], "truncation", 4),
    Planted(BY_NAME["lower_terms_are_followed"], "truncation", 5),
    Planted(BY_NAME["truncation_is_forgotten"], "truncation", 3),
    Planted(BY_NAME["commit_on_a_minority"], "log", 2),
    Planted(BY_NAME["logs_a_little_shorter_are_voted_for"], "log", 5),
    Planted(BY_NAME["what_is_not_known_to_be_committed_is_thrown_away"], "log", 1),
    Planted(BY_NAME["old_terms_are_committed_by_count"], "older_terms", 4),
    Planted(BY_NAME["successors_are_taken_at_the_leaders_word"], "transfer", 4),
    Planted(BY_NAME["leader_answers_without_a_round"], "reads", 1),
    Planted(BY_NAME["any_round_confirms_a_read"], "late_answers", 2),
    Planted(BY_NAME["leaders_answer_before_their_term_has_begun"], "untold", 4),
    Planted(BY_NAME["votes_of_earlier_ballots_count"], "late_votes", 4),
    Planted(BY_NAME["learners_are_counted"], "two", 5),
    Planted(BY_NAME["configurations_are_forgotten_by_a_restart"], "removed", 6),
)
