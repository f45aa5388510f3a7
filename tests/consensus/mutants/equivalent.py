"""Mutants that no test can find, each with the reason. The list may only shrink: a test demands that they survive."""

from __future__ import annotations

_HIGHER = "progress keeps only terms above that of its leader"
EQUIVALENT: dict[str, str] = {
    "consensus/state/quorum.py compare_log: term_a > term_b -> term_a >= term_b": "they differ there",
    "consensus/state/quorum.py compare_log: position_a > position_b -> position_a >= position_b": "they differ there",
    "consensus/handlers/following.py find_reason_to_leave: higher_term_id > ctx.leadership_term_id"
    " -> higher_term_id >= ctx.leadership_term_id": _HIGHER,
    "consensus/handlers/leading.py find_reason_to_give_up: higher_term_id > ctx.leadership_term_id"
    " -> higher_term_id >= ctx.leadership_term_id": _HIGHER,
    "consensus/handlers/verification.py compare_with_leader: lower < own_term_id < upper"
    " -> lower <= own_term_id < upper": "equal ones were answered before",
    "consensus/state/context.py Context.grow_to: position < self.append_position"
    " -> position <= self.append_position": "equal ones were answered before",
    "consensus/state/context.py Context.can_begin_term: base_position < self.term_base_position"
    " -> base_position <= self.term_base_position": "equal ones were answered before",
    "consensus/state/settings.py ConsensusSettings._check_members: set(self.learner_ids) <= set(self.member_ids)"
    " -> set(self.learner_ids) < set(self.member_ids)": "where all are learners, the configuration was refused before",
}
