"""Which messages of a client the log has, as a container counts them (cluster/container/tables/message_numbers.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ordo.cluster.container.tables.message_numbers import CLOSED_MAX, GAPS_MAX, MessageNumbers
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.ordo_codecs import PreviousSession
from ordo.cluster.wire.sessions.number_gaps import decode_gaps
from tests.records import make_record

if TYPE_CHECKING:
    from ordo.cluster.wire.records import MessageMark


class Session:
    def __init__(self, session_id: int) -> None:
        self.id = session_id
        self.next_number = -1

    def messages(self, count: int) -> None:
        """As the container's loop counts them."""
        if self.next_number >= 0:
            self.next_number += count


def mark_of(number: int, confirmed: int = 0, previous_session_id: int = -1) -> MessageMark:
    fields = {"number": number, "confirmed": confirmed, "previous_session_id": previous_session_id}
    return make_record(ordo_codecs.MESSAGE_MARK, **fields)


def gaps_of(answer: dict[str, Any]) -> list[tuple[int, int]]:
    return decode_gaps(answer["gaps"])


def test_what_is_missing_before_a_mark_is_a_gap_until_the_client_has_confirmed_it() -> None:
    numbers, session = MessageNumbers(), Session(5)
    session.messages(3)  # before the first mark nothing is counted
    assert gaps_of(numbers.mark(session, mark_of(1))) == []
    session.messages(4)
    assert gaps_of(numbers.mark(session, mark_of(5))) == []
    session.messages(2)  # of 10: the leader was lost with eight of them
    assert gaps_of(numbers.mark(session, mark_of(15, confirmed=4))) == [(7, 15)]
    session.messages(1)
    assert gaps_of(numbers.mark(session, mark_of(20, confirmed=4))) == [(7, 15), (16, 20)]
    assert gaps_of(numbers.mark(session, mark_of(20, confirmed=19))) == []


def test_a_session_goes_on_where_the_clients_last_one_was_closed() -> None:
    numbers, old, new = MessageNumbers(), Session(5), Session(6)
    numbers.mark(old, mark_of(1))
    old.messages(3)
    answer = numbers.mark(new, mark_of(11, 0, 5))
    assert answer["previous"] == PreviousSession.OPEN and gaps_of(answer) == []
    old.messages(2)
    numbers.close(old)
    new.messages(1)
    for _ in range(2):  # the first answer may be lost
        answer = numbers.mark(new, mark_of(12, 0, 5))
        assert answer["previous"] == PreviousSession.RESOLVED and gaps_of(answer) == [(6, 11)]
    assert numbers.mark(Session(7), mark_of(1, 0, 99))["previous"] == PreviousSession.UNKNOWN


def test_a_chain_of_sessions_keeps_no_more_gaps_than_one() -> None:
    """Each took over those of the one before: a client that left again and again made the next snapshot too long."""
    numbers, previous = MessageNumbers(), -1
    for session_id in range(1, 3 * GAPS_MAX):
        one = Session(session_id)
        answer = numbers.mark(one, mark_of(10 * session_id, 0, previous))
        numbers.close(one)
        previous = session_id
    assert len(gaps_of(answer)) == GAPS_MAX
    assert answer["known_number"] == gaps_of(answer)[0][0]


def test_what_is_kept_is_bounded_and_says_what_it_has_forgotten() -> None:
    numbers, session = MessageNumbers(), Session(5)
    for number in range(1, 2 * GAPS_MAX + 2):
        answer = numbers.mark(session, mark_of(10 * number))
    assert len(gaps_of(answer)) == GAPS_MAX
    assert answer["known_number"] == gaps_of(answer)[0][0] == 10 * (GAPS_MAX + 1)
    for session_id in range(100, 100 + CLOSED_MAX + 1):
        one = Session(session_id)
        numbers.mark(one, mark_of(1))
        numbers.close(one)
    assert numbers.mark(session, mark_of(10**6, 0, 100))["previous"] == PreviousSession.UNKNOWN
    assert numbers.mark(session, mark_of(10**6, 0, 101))["previous"] == PreviousSession.RESOLVED


def test_a_client_that_counts_backwards_is_told_nothing() -> None:
    numbers, session = MessageNumbers(), Session(5)
    numbers.mark(session, mark_of(100))
    session.messages(5)
    answer = numbers.mark(session, mark_of(3))
    assert (answer["known_number"], gaps_of(answer)) == (3, [])


def test_a_snapshot_has_it_all() -> None:
    numbers, old, new = MessageNumbers(), Session(5), Session(6)
    numbers.mark(old, mark_of(1))
    old.messages(3)
    numbers.close(old)
    numbers.mark(new, mark_of(11))
    new.messages(4)
    numbers.mark(new, mark_of(17))
    restored, session = MessageNumbers(), Session(6)
    rows = [ordo_codecs.decode(row) for row in numbers.snapshot({6: new})]
    restored.restore([row[1] for row in rows if row is not None], {6: session})
    assert session.next_number == 17
    assert list(restored.snapshot({6: session})) == list(numbers.snapshot({6: new}))
    assert restored.mark(session, mark_of(18, 0, 5)) == numbers.mark(new, mark_of(18, 0, 5))
