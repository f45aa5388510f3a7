"""Log matching by term table instead of by entry: whether this member's log is a prefix of the leader's (Raft §5.3).

Within one term there is one leader and one log, so two logs that both hold term T agree up to the smaller of their
ends of T, and on everything before it. NewLeadershipTerm names two neighbouring rows L and N of the leader's table:

    own last term T     what it proves                               what to do
    T == L              the leader has T; it ends at N's base        longer than that: truncate there; else a prefix
    L < T < N           the leader has nothing of the terms above L  truncate where the first own term above L begins
    otherwise           nothing                                      tell the leader one's own T and wait

Both truncation points are ends of records in this member's log: a term's end in a log that shares the term,
or a term's base.
"""

from enum import Enum, unique
from typing import NamedTuple

from ordo.consensus.state.messages import NULL_TERM, NewLeadershipTerm
from ordo.consensus.state.term_table import TermTable
from ordo.runtime.native.sentinels import NULL_POSITION


@unique
class Verdict(Enum):
    """The result of comparing a NewLeadershipTerm with this member's log."""

    PREFIX = "prefix"
    TRUNCATE = "truncate"
    NOT_ADDRESSED = "not addressed"
    OUT_OF_REACH = "out of reach"


class Comparison(NamedTuple):
    """A verdict; `position` is where to truncate, or NULL_POSITION."""

    verdict: Verdict
    position: int = NULL_POSITION


def compare_with_leader(terms: TermTable, append_position: int, message: NewLeadershipTerm) -> Comparison:
    """Compare this member's log with the leader's, as its message describes it.

    OUT_OF_REACH: the leader's table begins above position 0 and above the own last term, so nothing can be proven.
    """
    own_term_id = terms.term_before(append_position)
    assert own_term_id == terms.last_term_id, f"{terms.rows} beyond {append_position=}"
    lower, upper = message.log_leadership_term_id, message.next_leadership_term_id
    upper_base = message.next_term_base_log_position
    assert own_term_id <= message.leadership_term_id, f"{own_term_id=} above {message.leadership_term_id=}"
    if lower == own_term_id:
        if upper_base != NULL_POSITION and upper_base < append_position:
            return Comparison(Verdict.TRUNCATE, upper_base)
        return Comparison(Verdict.PREFIX)
    if not lower < own_term_id < upper or upper_base < 0:
        return Comparison(Verdict.NOT_ADDRESSED)
    if lower == NULL_TERM and upper_base > 0:
        return Comparison(Verdict.OUT_OF_REACH)
    return Comparison(Verdict.TRUNCATE, terms.bracket(lower).next_base_position)
