"""Requests that one cluster has answered and another one, which went on with its log, has not: their client is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ordo.cluster.client.requests.answered import ANSWERED_KEPT, AnsweredRequests
from ordo.cluster.client.requests.journal import Journal
from ordo.cluster.client.requests.request_window import PendingRequest
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.log_identity import Log, Origin
from ordo.cluster.wire.ordo_codecs import AnswerStatus
from ordo.runtime.errors import OtherClusterError, RejectedError, RequestOutcome, StorageError
from ordo.service_api.requests import OpenStatus
from tests.cluster.client.test_other_cluster import NEWEST, ONE, OTHER, TellingWorld
from tests.cluster.client.test_requests import NAME, RETRY_NS, Client, FullDisk
from tests.cluster.client.test_staying import close_session
from tests.simulation.requests import MemoryJournal

# -- by what the cluster says of an identity ---------------------------------------------------------------------------


def answered(store: MemoryJournal | None, count: int, answers: int) -> Client:
    """A client with requests of which the first ones were answered."""
    client = Client(store)
    client.open(count)
    client.work()
    for number in range(1, answers + 1):
        client.answer(number)
    client.work()
    return client


def test_a_journal_that_was_answered_more_than_the_cluster_has_executed_is_told_which() -> None:
    """Its next request was never answered: the cluster waited for the numbers before it."""
    store = MemoryJournal(None)
    answered(store, 5, 4)
    again = Client(store)
    again.work()
    again.opened(number=1)
    with pytest.raises(OtherClusterError, match="lacks 3 requests from 2 to 4, which were answered before") as raised:
        again.requests.recovered[0].result()
    assert raised.value.lost_requests == (2, 3, 4)
    assert raised.value.outcome is RequestOutcome.UNKNOWN, "request 5 was not answered"
    with pytest.raises(OtherClusterError, match="not executed: the cluster has executed") as raised:
        again.requests.submit(b"next")
    assert raised.value.lost_requests == (2, 3, 4)
    assert again.ingress.numbers() == []


def test_an_answer_that_is_in_no_log_any_more_is_not_asked_for_again() -> None:
    """It had come, and was not confirmed when the process ended: the request would have been executed once more."""
    store = MemoryJournal(None)
    client = Client(store)
    client.open(3)
    client.work()
    client.answer(2)
    again = Client(store)
    again.work()
    again.opened(number=1)
    with pytest.raises(OtherClusterError, match="lacks request 2, which was answered before"):
        again.requests.recovered[1].result()
    assert again.ingress.numbers() == []


def test_a_cluster_that_has_executed_all_that_was_answered_goes_on() -> None:
    store = MemoryJournal(None)
    answered(store, 5, 4)
    again = Client(store)
    again.work()
    again.opened(number=4, confirmed=0)
    assert again.ingress.numbers() == [5]


def test_a_journal_of_an_earlier_release_is_told_by_what_it_has_confirmed() -> None:
    store = MemoryJournal(None)
    journal = Journal(store)
    journal.recover(NAME, 77)
    journal.open(640, 1000, 0)
    for number in range(1, 4):
        journal.add_request(number, b"1")
    journal.confirm(3)
    again = Client(store)
    pending = again.requests.submit(b"next")
    again.work()
    again.opened(number=1)
    with pytest.raises(OtherClusterError) as raised:
        pending.result()
    assert raised.value.lost_requests == (2, 3)


@pytest.mark.parametrize("number", [0, -(1 << 62)])
def test_whatever_number_comes_no_more_than_the_newest_are_told(number: int) -> None:
    store = MemoryJournal(None)
    journal = Journal(store)
    journal.recover(NAME, 77)
    journal.open(640, 1000, 0)
    journal.add_request(1 << 40, b"1")
    journal.confirm(1 << 40)
    client = Client(store)
    pending = client.requests.submit(b"next")
    client.work()
    client.opened(number=number)
    with pytest.raises(OtherClusterError) as raised:
        pending.result()
    lost = raised.value.lost_requests
    assert (len(lost), lost[-1]) == (ANSWERED_KEPT, 1 << 40)


def test_numbers_begin_anew_with_an_identity_that_has_expired() -> None:
    store = MemoryJournal(None)
    client = answered(store, 3, 3)
    client.requests.on_answer(640, 3, 0, AnswerStatus.UNKNOWN, b"")
    client.work()
    client.opened(status=OpenStatus.EXPIRED)
    pending = client.requests.submit(b"next")
    client.work(1 << 40)
    client.opened()
    assert pending.number == 1
    again = Client(store)
    again.work()
    again.opened()
    assert again.ingress.numbers() == [1]


@pytest.mark.parametrize("status", [AnswerStatus.OK, AnswerStatus.REJECTED])
def test_nobody_sees_an_answer_that_the_journal_cannot_take(status: int) -> None:
    store = FullDisk(None)
    client = Client(store)
    (pending,) = client.open(1)
    client.work()
    store.room = 0
    with pytest.raises(StorageError, match="No space"):
        client.answer(1, status)
    assert not pending.is_done
    store.room = 100
    client.answer(1, status)
    assert pending.is_done
    if status == AnswerStatus.REJECTED:
        with pytest.raises(RejectedError):
            pending.result()


def test_the_newest_answers_are_known_and_a_bounded_number_of_them() -> None:
    rows = AnsweredRequests()
    count = 4 * ANSWERED_KEPT + 100
    for number in range(1, count + 1):
        rows.note(number, 32 * number)
    assert ANSWERED_KEPT <= len(rows) <= 2 * ANSWERED_KEPT
    assert rows.behind(32 * (count - 3)) == [count - 2, count - 1, count]
    assert rows.behind(32 * count) == []
    assert rows.behind(0)[-1] == count
    rows.clear()
    assert rows.behind(0) == []


def promote(client: Client) -> None:
    """The same client has a session with the cluster that was promoted."""
    client.session.session_id, client.session.leadership_term_id = 1, 1 << 20


def opens(client: Client) -> int:
    """How often a client asks how far the cluster is, until it has sent its requests again twice."""
    count = 0
    for _ in range(4):
        client.now_ns += 2 * RETRY_NS
        client.requests.work(client.now_ns)
        count += [name for name, _ in client.ingress.sent].count("OpenIdentity")
        client.ingress.sent.clear()
    return count


@pytest.mark.parametrize("has_journal", [False, True])
def test_a_client_that_stays_is_told_of_a_number_whose_answer_was_an_ids_earlier_one(has_journal: bool) -> None:
    """The position of that answer is in both logs: the client sent its next request again and again, for ever."""
    client = Client(MemoryJournal(None) if has_journal else None)
    client.open(3)
    client.work()
    client.answer(1)
    client.answer(2)
    client.answer(3, at=1001)
    client.work()
    promote(client)
    pending = client.requests.submit(b"4")
    assert set(client.work()) == {4}
    assert opens(client) > 0 and not pending.is_done
    client.opened(number=2)
    with pytest.raises(OtherClusterError, match="lacks request 3, which was answered before") as raised:
        pending.result()
    assert (raised.value.lost_requests, raised.value.outcome) == ((3,), RequestOutcome.UNKNOWN)
    with pytest.raises(OtherClusterError, match="lacks request 3"):
        client.requests.submit(b"5")


def test_a_client_asks_once_a_session_and_only_if_nothing_comes() -> None:
    client = Client()
    client.open(2)
    assert opens(client) == 0, "it was told just now"
    client.answer(1)
    client.answer(2)
    promote(client)
    pending = client.requests.submit(b"3")
    assert set(client.work()) == {3}
    client.answer(3)
    assert pending.is_done and opens(client) == 0
    client.requests.submit(b"4")
    client.work()
    assert opens(client) > 0
    client.opened(number=3)
    assert client.ingress.numbers() == [] and opens(client) == 0


@pytest.mark.parametrize("term", [1, (1 << 20) - 1])
def test_what_an_earlier_leader_says_late_ends_no_client(term: int) -> None:
    client = Client()
    client.open(3)
    client.answer(1)
    client.answer(2)
    promote(client)
    client.work()
    client.opened(number=1, term=term)
    client.answer(3)
    assert client.requests.submit(b"4").error is None


def test_only_what_a_journal_has_sent_is_told_as_lost() -> None:
    """Its identity was another client's before, whose numbers it told as its own."""
    store = MemoryJournal(None)
    client = Client(store)
    client.requests.submit(b"1")
    client.work()
    client.opened(number=100)
    assert client.ingress.numbers() == [101]
    for _ in range(2):  # read anew, and written anew
        again = Client(store)
        again.work()
        again.opened(number=50)
        with pytest.raises(OtherClusterError, match=r"up to number 50, and had executed up to 100 before$") as raised:
            again.requests.recovered[0].result()
        assert raised.value.lost_requests == ()
        assert again.ingress.numbers() == []
    client.answer(101)
    again = Client(store)
    again.work()
    pending = again.requests.submit(b"2")
    again.opened(number=50)
    with pytest.raises(OtherClusterError, match="lacks request 101, which was answered before") as raised:
        pending.result()
    assert raised.value.lost_requests == (101,)


def test_only_what_a_client_without_a_journal_has_sent_is_told_as_lost() -> None:
    client = Client()
    pending = client.requests.submit(b"1")
    client.work()
    client.opened(number=100)
    client.answer(101)
    promote(client)
    client.work()
    client.opened(number=7)
    assert pending.result()
    with pytest.raises(OtherClusterError) as raised:
        client.requests.submit(b"2")
    assert raised.value.lost_requests == (101,)


# -- by whose log the cluster has --------------------------------------------------------------------------------------

OPEN_POSITION = 640


@pytest.fixture
def world() -> Iterator[TellingWorld]:
    world = TellingWorld()
    yield world
    world.close()


def open_identity(world: TellingWorld, client: ClusterClient) -> None:
    message = ordo_codecs.IDENTITY_OPENED.encode(
        leadership_term_id=world.leadership_term_id,
        cluster_session_id=client.session_id,
        incarnation=world.leader.received[-1][1].incarnation,
        open_position=OPEN_POSITION,
        number=0,
        confirmed=0,
        status=OpenStatus.OK,
        length_bytes_max=1000,
    )
    world.leader.send(world.sessions[client.session_id].response_channel, message)


def answer(world: TellingWorld, client: ClusterClient, number: int, position: int) -> None:
    message = ordo_codecs.ANSWER.encode(
        leadership_term_id=world.leadership_term_id,
        cluster_session_id=client.session_id,
        timestamp=0,
        open_position=OPEN_POSITION,
        number=number,
        log_position=position,
        status=0,
    )
    world.leader.send(world.sessions[client.session_id].response_channel, message)


def ask(world: TellingWorld, client: ClusterClient) -> list[PendingRequest]:
    """Four requests, of which three are answered: at 6000, 6032 and 6096."""
    pending = [client.submit(b"1") for _ in range(4)]
    world.run(client, lambda: world.leader.names_received()[-1:] == ["OpenIdentity"])
    open_identity(world, client)
    world.run(client, lambda: world.leader.names_received().count("Request") >= 4)
    for number, position in enumerate((6000, 6032, 6096), start=1):
        answer(world, client, number, position)
    world.run(client, lambda: pending[2].is_done)
    return pending


PROMOTED = [
    # (the new identity, what it was before, up to where it has the former log, the requests that it lacks)
    (Log(NEWEST, 6032, 9000), (Origin(ONE, 0),), 6000, (2, 3)),
    (Log(NEWEST, 6064, 9000), (Origin(ONE, 0),), 6032, (3,)),
    (Log(NEWEST, 8000, 9000), (Origin(ONE, 0), Origin(OTHER, 5000)), 4968, (1, 2, 3)),
    (Log(NEWEST, 0, 9000), (), None, ()),
    (Log(NEWEST, 6032, 9000), (Origin(OTHER, 0),), None, ()),
]
"""The last two say nothing of the cluster that has answered: they may be any other one."""


@pytest.mark.parametrize(("told", "past", "kept", "lost"), PROMOTED)
@pytest.mark.parametrize("has_journal", [False, True])
def test_a_client_is_told_which_of_its_requests_the_promoted_cluster_lacks(
    world: TellingWorld,
    tmp_path: Path,
    has_journal: bool,
    told: Log,
    past: tuple[Origin, ...],
    kept: int | None,
    lost: tuple[int, ...],
) -> None:
    world.told = Log(ONE, 0, 5000)
    journal = {"journal": str(tmp_path / "journal")} if has_journal else {}
    client = world.client(reconnect=True, **journal)
    pending = ask(world, client)
    world.told, world.past = told, past
    close_session(world, client.session_id, "TIMEOUT")
    with pytest.raises(OtherClusterError) as raised:
        world.run(client, lambda: False)
    assert (raised.value.kept_position, raised.value.lost_requests) == (kept, lost)
    client.close()
    with pytest.raises(OtherClusterError) as raised:
        pending[3].result()
    assert (raised.value.kept_position, raised.value.lost_requests) == (kept, lost)
    assert raised.value.outcome is RequestOutcome.UNKNOWN
    assert ("lacks" in str(raised.value)) is bool(lost)


def test_a_process_that_was_killed_has_its_answers_in_the_journal(world: TellingWorld, tmp_path: Path) -> None:
    """The journal knew of the log up to where the session was opened, and let the requests be executed once more."""
    world.told = Log(ONE, 0, 5000)
    path = tmp_path / "journal"
    ask(world, world.client(journal=str(path)))
    copy = tmp_path / "copy"
    copy.write_bytes(path.read_bytes())
    world.told, world.past = Log(NEWEST, 6064, 9000), (Origin(ONE, 0),)
    wanted = r"the journal of .* behind position=6032: give .*; it lacks"
    for _ in range(2):
        with pytest.raises(OtherClusterError, match=wanted) as raised:
            world.client(journal=str(copy))
        assert (raised.value.kept_position, raised.value.lost_requests) == (6032, (3,))


def test_a_cluster_that_was_promoted_with_all_that_was_answered_goes_on(world: TellingWorld, tmp_path: Path) -> None:
    world.told = Log(ONE, 0, 5000)
    path = tmp_path / "journal"
    client = world.client(journal=str(path))
    ask(world, client)
    client.close()
    world.told, world.past = Log(NEWEST, 6096 + 32, 9000), (Origin(ONE, 0),)
    world.client(journal=str(path)).close()
