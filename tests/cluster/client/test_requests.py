"""The requests of a client, against a cluster that is written down here: what is sent, and when again."""

from __future__ import annotations

from typing import Any

import pytest

from ordo.cluster.client.requests.journal import Journal
from ordo.cluster.client.requests.request_window import Answer, PendingRequest
from ordo.cluster.client.requests.requests import ClientRequests
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.ordo_codecs import AnswerStatus
from ordo.runtime.errors import (
    AnswerTooLongError,
    ClusterError,
    IdentityError,
    MessageError,
    OrdoError,
    RejectedError,
    RequestOutcome,
    SessionClosedError,
    StorageError,
)
from ordo.service_api.requests import OpenStatus
from tests.simulation.requests import MemoryJournal

RETRY_NS = 1_000
NAME = bytes(range(16))


class Ingress:
    """A publication to the leader. `room`: so many messages it takes."""

    max_message_length = 1000
    is_connected = True

    def __init__(self) -> None:
        self.sent: list[tuple[str, Any]] = []
        self.room = 1000

    def offer(self, message: bytes) -> int:
        if self.room == 0:
            return -2
        self.room -= 1
        found = ordo_codecs.decode(message)
        assert found is not None
        if found[0] is ordo_codecs.REQUEST:
            found = ordo_codecs.decode_request(message)
        self.sent.append((found[0].name, found[1]))
        return len(self.sent)

    def numbers(self) -> list[int]:
        """Of the requests sent since the last call."""
        sent, self.sent = self.sent, []
        return [values.number for name, values in sent if name.startswith("Request")]


class Session:
    """One session after the other."""

    def __init__(self) -> None:
        self.session_id = 5
        self.leadership_term_id = 1
        self.leader_ingress: Any = Ingress()
        self.lost = 0
        self.takes_messages = True

    def note_ingress_lost(self) -> None:
        self.lost += 1

    def note_sent(self, count: int = 1) -> None:
        """Counted by the ingress."""


class Client:
    """The requests under test, with what the cluster says."""

    def __init__(self, store: MemoryJournal | None = None) -> None:
        self.session = Session()
        self.now_ns = 1
        self.requests = ClientRequests(
            self.session,
            identity=NAME,
            incarnation=77,
            retry_interval_ns=RETRY_NS,
            outstanding_max=100,
            journal=None if store is None else Journal(store),
            wait=lambda pending, timeout_s: None,
        )

    @property
    def ingress(self) -> Ingress:
        assert isinstance(self.session.leader_ingress, Ingress)
        return self.session.leader_ingress

    def work(self, later_ns: int = 1) -> list[int]:
        self.now_ns += later_ns
        self.requests.work(self.now_ns)
        return self.ingress.numbers()

    def opened(
        self,
        number: int = 0,
        confirmed: int = 0,
        status: OpenStatus = OpenStatus.OK,
        takes_ids: bool = False,
        term: int | None = None,
    ) -> None:
        message = ordo_codecs.IDENTITY_OPENED.encode(
            leadership_term_id=self.session.leadership_term_id if term is None else term,
            incarnation=77,
            open_position=640,
            number=number,
            confirmed=confirmed,
            status=status,
            length_bytes_max=1000,
            takes_ids=takes_ids,
        )
        self.requests.on_opened(ordo_codecs.IDENTITY_OPENED.decode(message), self.now_ns)

    def answer(
        self, number: int, status: int = AnswerStatus.OK, payload: bytes = b"yes", position: int = 640, at: int = 0
    ) -> None:
        """`at`: where it was executed."""
        self.requests.on_answer(position, number, at or 1000 + number, status, payload, number)

    def open(self, count: int = 0) -> list[PendingRequest]:
        """An open identity, and requests that were sent."""
        pending = [self.requests.submit(b"%d" % number) for number in range(count)]
        self.work()
        self.opened()
        self.ingress.numbers()
        return pending


def test_the_identity_is_opened_first_and_again_until_it_is() -> None:
    client = Client()
    pending = client.requests.submit(b"one")
    assert (pending.number, client.work()) == (0, [])
    client.requests.work(client.now_ns + 1)
    assert client.ingress.sent == []
    client.requests.work(client.now_ns + 300_000_000)
    ((name, values),) = client.ingress.sent
    assert (name, values.incarnation, values.known_position) == ("OpenIdentity", 77, 0)
    client.opened(number=41)
    assert (pending.number, client.ingress.numbers()) == (42, [42])


def test_requests_that_are_submitted_together_are_sent_in_order_for_as_long_as_there_is_room() -> None:
    client = Client()
    client.open()
    client.ingress.room = 2
    pending = client.requests.submit_many([b"one", bytearray(b"two"), b"three"])
    assert [(one.number, one.payload) for one in pending] == [(1, b"one"), (2, b"two"), (3, b"three")]
    assert client.ingress.numbers() == [1, 2]
    client.ingress.room = 1000
    assert client.work() == [3]
    assert client.requests.submit_many([]) == []
    taken, refused, last = client.requests.submit_many([b"four", bytes(2000), b"five"])
    with pytest.raises(ClusterError, match="request of 2,000 bytes"):
        refused.result()
    assert (taken.number, last.number, client.ingress.numbers()) == (4, 5, [4, 5])


def test_answers_may_come_in_any_order_and_confirm_what_is_whole() -> None:
    client = Client()
    first, second, third = client.open(3)
    client.answer(2)
    assert (second.result(), first.is_done) == (Answer(b"yes", 1002, 2), False)
    client.requests.submit(b"four")
    assert client.ingress.sent[-1][1].confirmed == 0
    client.answer(1)
    client.answer(1)
    client.work()
    client.requests.submit(b"five")
    assert client.ingress.sent[-1][1].confirmed == 2
    assert not third.is_done and len(client.requests) == 3


def test_an_answer_that_is_read_is_the_value_or_an_error() -> None:
    early: list[object] = []

    def read(payload: bytes) -> int:
        early.append((good.value, bad.value))
        if not payload.isdigit():
            raise MessageError(f"{payload.decode()} is no number")
        return int(payload)

    client = Client()
    client.open()
    good, bad = (client.requests.submit(b"one", read=read) for _ in range(2))
    told: list[object] = []
    bad.when_done(lambda pending: told.append(pending.error))
    client.answer(1, payload=b"40")
    client.answer(2, payload=b"yes")
    assert (good.value, good.result(), good.answer) == (40, 40, Answer(b"40", 1001, 1))
    assert early == [(None, None), (40, None)], "nobody sees the answer itself as the value"
    assert (bad.is_done, bad.value, bad.answer, told) == (True, None, Answer(b"yes", 1002, 2), [bad.error])
    with pytest.raises(
        MessageError, match=r"executed at log position 1002, .* else \(.*\): yes is no number"
    ) as failed:
        bad.result()
    error = failed.value
    assert error.outcome is RequestOutcome.EXECUTED
    assert (error.pending, error.pending.answer.payload) == (bad, b"yes"), "it is confirmed away in the cluster"
    assert (error.log_position, error.sequence) == (1002, 2)


def test_everything_unanswered_is_sent_again_in_order() -> None:
    """To a new leader, with a new session, and when nothing was heard; later and later while nothing is."""
    client = Client()
    client.open(3)
    assert client.work() == []
    client.answer(1)
    assert client.work() == []
    client.session.leadership_term_id = 2
    assert client.work() == [2, 3]
    client.session.session_id = 6
    assert client.work() == [2, 3]
    assert client.work(RETRY_NS - 1) == []
    assert client.work(1) == [2, 3]
    assert client.work(RETRY_NS) == []
    assert client.work(RETRY_NS) == [2, 3]
    client.answer(2)
    client.work()
    assert client.work(RETRY_NS) == [3], "there was progress"


def test_what_is_sent_after_a_rest_has_all_of_the_time_for_its_answer() -> None:
    """The time of the last request once went on through the rest, and the next one was sent twice."""
    client = Client()
    client.open(1)
    client.work()
    client.answer(1)
    client.work()
    assert client.work(10 * RETRY_NS) == []
    client.requests.submit(b"after the rest")
    assert client.ingress.numbers() == [2]
    assert client.work() == [] and client.work(RETRY_NS - 1) == []
    assert client.work() == [2]


def test_requests_that_are_taken_are_sent_together_at_the_next_work() -> None:
    client = Client()
    client.open()
    taken = [client.requests.take(b"%d" % number, None, None, None) for number in range(3)]
    assert [one.number for one in taken] == [1, 2, 3]
    assert client.ingress.numbers() == [] and client.requests.has_unsent
    assert client.work() == [1, 2, 3] and not client.requests.has_unsent
    left = client.requests.take(b"not sent any more", None, None, None)
    client.requests.close(SessionClosedError("closed"))
    assert [one.error.outcome for one in (taken[0], left) if one.error] == [
        RequestOutcome.UNKNOWN,
        RequestOutcome.NOT_EXECUTED,
    ]


def test_a_full_ingress_takes_the_rest_later() -> None:
    client = Client()
    client.open()
    client.ingress.room = 2
    for number in range(4):
        client.requests.submit(b"%d" % number)
    assert client.ingress.numbers() == [1, 2]
    assert client.requests.has_unsent
    client.ingress.room = 10
    assert client.work() == [3, 4]
    assert not client.requests.has_unsent


@pytest.mark.parametrize(
    ("status", "error"), [(AnswerStatus.REJECTED, RejectedError), (AnswerStatus.TOO_LONG, AnswerTooLongError)]
)
def test_what_the_service_refuses_says_why_and_where(status: int, error: type[OrdoError]) -> None:
    client = Client()
    (pending,) = client.open(1)
    client.answer(1, status, b"no money")
    with pytest.raises(error, match="no money") as raised:
        pending.result()
    found: Any = raised.value
    assert (found.log_position, found.sequence) == (1001, 1)


def test_answers_are_compared_without_the_number_that_may_not_be_known() -> None:
    answer = Answer(b"yes", 1001, 7)
    assert answer == Answer(b"yes", 1001) and hash(answer) == hash(Answer(b"yes", 1001))
    assert answer != Answer(b"yes", 1002, 7) and answer != Answer(b"no", 1001, 7)
    assert answer == (b"yes", 1001, 7) and answer != (b"yes", 1001)


@pytest.mark.parametrize("sequence", [0, -(1 << 63)])
def test_an_answer_has_no_number_where_the_member_does_not_know_it(sequence: int) -> None:
    client = Client()
    pending, refused = client.open(2)
    client.requests.on_answer(640, 1, 1001, AnswerStatus.OK, b"yes", sequence)
    client.requests.on_answer(640, 2, 1002, AnswerStatus.REJECTED, b"no", sequence)
    assert pending.result().sequence is None
    with pytest.raises(RejectedError) as raised:
        refused.result()
    assert raised.value.sequence is None


def test_a_cluster_that_keeps_too_much_is_asked_again() -> None:
    client = Client()
    (pending,) = client.open(1)
    client.answer(1, AnswerStatus.WAIT, b"too many answers are kept")
    assert not pending.is_done and "too many answers" in str(client.requests.timeout(pending))
    client.work()
    assert client.work(RETRY_NS) == [1]


def test_a_request_that_is_too_long_is_refused_before_it_has_a_number() -> None:
    client = Client()
    early = client.requests.submit(bytes(945))
    fits = client.requests.submit(bytes(944))
    client.work()
    client.opened()
    with pytest.raises(ClusterError, match="request of 945 bytes: at most 944 are taken here"):
        early.result()
    assert (fits.number, client.ingress.numbers()) == (1, [1])
    with pytest.raises(ClusterError, match="request of 945 bytes: at most 944 are taken here"):
        client.requests.submit(bytes(945))


def test_an_identity_that_has_expired_is_said_to_be_and_begun_anew() -> None:
    client = Client()
    (pending,) = client.open(1)
    client.answer(1, AnswerStatus.UNKNOWN, b"")
    client.work()
    client.opened(status=OpenStatus.EXPIRED)
    with pytest.raises(IdentityError, match="has expired"):
        pending.result()
    again = client.requests.submit(b"again")
    client.work()
    client.opened()
    assert (again.number, client.ingress.numbers()) == (1, [1])


@pytest.mark.parametrize("status", [OpenStatus.SUPERSEDED, OpenStatus.FORBIDDEN])
def test_an_identity_that_another_has_is_given_up(status: OpenStatus) -> None:
    client = Client()
    pending = client.requests.submit(b"one")
    client.work()
    client.opened(status=status)
    with pytest.raises(IdentityError):
        pending.result()
    with pytest.raises(IdentityError):
        client.requests.submit(b"two")


def test_a_client_that_is_closed_leaves_in_its_journal_what_was_not_answered() -> None:
    """Closing the client once confirmed them, as if their answers had come, and they were lost."""
    store = MemoryJournal(None)
    client = Client(store)
    pending = client.open(3)
    client.work()
    client.answer(1)
    client.requests.close(SessionClosedError("closed"))
    with pytest.raises(SessionClosedError):
        pending[1].result()
    again = Client(store)
    assert [one.number for one in again.requests.recovered] == [2, 3]
    again.work()
    again.opened(number=2, confirmed=0)
    assert again.ingress.numbers() == [2, 3]
    again.answer(2)
    assert again.requests.recovered[0].result() == Answer(b"yes", 1002, 2)
    assert again.requests.submit(b"next").number == 4


@pytest.mark.parametrize("is_closed", [True, False])
def test_what_a_journal_keeps_is_not_said_to_be_not_executed(is_closed: bool) -> None:
    """It was sent to nobody, and whoever has the journal next sends it: to do it again would be to do it twice."""
    store = MemoryJournal(None)
    client = Client(store)
    client.open()
    kept = client.requests.submit(b"kept")
    assert client.ingress.numbers() == []
    error = SessionClosedError("closed")
    client.requests.close(error) if is_closed else client.requests.fail(error)
    with pytest.raises(SessionClosedError) as raised:
        kept.result()
    assert raised.value.outcome is RequestOutcome.UNKNOWN
    again = Client(store)
    again.work()
    again.opened()
    assert again.ingress.numbers() == [1]


class FullDisk(MemoryJournal):
    """A journal's file on a disk that takes so many records more."""

    room = 1_000

    def append(self, data: bytes) -> None:
        if self.room == 0:
            raise StorageError("journal: No space left on device")
        self.room -= 1
        super().append(data)


def test_what_the_journal_cannot_take_is_never_sent() -> None:
    """It was sent with the next request: who did again what was not executed, as it said, had it executed twice."""
    store = FullDisk(None)
    client = Client(store)
    client.open(1)
    store.room = 1
    taken, *refused = client.requests.submit_many([b"two", b"three", b"four"])
    with pytest.raises(StorageError, match="not executed: journal: No space") as refusal:
        client.requests.submit(b"five")
    assert refusal.value.outcome is RequestOutcome.NOT_EXECUTED
    store.room = 1_000
    again = client.requests.submit(b"three")
    assert (taken.number, again.number, client.work()) == (2, 3, [2, 3])
    for one in refused:
        with pytest.raises(StorageError, match="not executed: journal: No space") as raised:
            one.result()
        assert raised.value.outcome is RequestOutcome.NOT_EXECUTED
    assert [one.payload for one in Client(store).requests.recovered] == [b"0", b"two", b"three"]


def test_what_waited_for_its_number_and_the_journal_cannot_take_is_told_so() -> None:
    store = FullDisk(None)
    client = Client(store)
    first, second = client.requests.submit_many([b"one", b"two"])
    client.work()
    store.room = 2  # that it was opened, and one request
    client.opened()
    assert (first.number, client.ingress.numbers()) == (1, [1])
    with pytest.raises(StorageError, match="not executed"):
        second.result()


def test_a_journal_that_is_an_old_copy_is_refused() -> None:
    store = MemoryJournal(None)
    client = Client(store)
    client.open(3)
    old = Client(store)
    old.work()
    old.opened(number=9)
    with pytest.raises(IdentityError, match="journal ends at request 3, the cluster has executed 9"):
        old.requests.recovered[0].result()
