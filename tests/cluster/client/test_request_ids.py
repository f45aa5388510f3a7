"""Requests with ids of the caller's choice, from the client's side, and what each error says became of a request."""

from __future__ import annotations

from typing import Any

import pytest

from ordo.cluster.client.requests.request_window import Answer, PendingRequest
from ordo.cluster.client.requests.requests import ID_PATIENCE_NS, OPEN_RETRY_NS
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.ordo_codecs import AnswerStatus
from ordo.runtime.errors import (
    AnswerForgottenError,
    AnswerTooLongError,
    ClusterError,
    ClusterTimeoutError,
    ConfigurationError,
    IdentityError,
    OrdoError,
    RegistrationError,
    RejectedError,
    RequestIdError,
    RequestOutcome,
    SessionClosedError,
)
from ordo.service_api.request_ids import digest_request_id
from ordo.service_api.requests import OpenStatus
from tests.cluster.client.test_requests import RETRY_NS, Client
from tests.simulation.requests import MemoryJournal

NOT_EXECUTED, EXECUTED, UNKNOWN = RequestOutcome.NOT_EXECUTED, RequestOutcome.EXECUTED, RequestOutcome.UNKNOWN


def open_with_ids(client: Client) -> None:
    client.work()
    client.opened(takes_ids=True)
    client.ingress.numbers()


def test_the_digest_of_an_id_is_sent_and_sent_again() -> None:
    client = Client()
    open_with_ids(client)
    plain, by_id = client.requests.submit(b"one"), client.requests.submit(b"two", id=b"payment 7")
    (first, second), client.ingress.sent = client.ingress.sent, []
    assert (first[0], second[0], by_id.id, plain.id) == ("Request", "RequestById", b"payment 7", None)
    assert ordo_codecs.request_digest(second[1]) == digest_request_id(b"payment 7")
    assert ordo_codecs.request_digest(first[1]) == b""
    client.work()
    assert client.work(RETRY_NS) == [1, 2]
    client.answer(2)
    assert by_id.result() == Answer(b"yes", 1002, 2)


def test_many_may_have_ids() -> None:
    client = Client()
    open_with_ids(client)
    pending = client.requests.submit_many([b"one", b"two"], [b"a", b"b"])
    assert [(one.number, one.id) for one in pending] == [(1, b"a"), (2, b"b")]
    assert [name for name, _ in client.ingress.sent] == ["RequestById"] * 2
    (bad,) = client.requests.submit_many([b"three"], [b"x" * 65])
    assert isinstance(bad.error, ConfigurationError) and bad.error.outcome is NOT_EXECUTED


def test_a_cluster_that_takes_no_ids_yet_is_asked_again_and_order_is_kept() -> None:
    client = Client()
    client.open()
    by_id, plain = client.requests.submit(b"one", id=b"a"), client.requests.submit(b"two")
    assert (by_id.number, plain.number) == (0, 0)
    for _ in range(2):
        client.requests.work(client.now_ns)
        client.now_ns += OPEN_RETRY_NS + 1
        client.requests.work(client.now_ns)
        assert [name for name, _ in client.ingress.sent][-1] == "OpenIdentity"
        client.opened()
    assert "protocol level 3" in client.requests.trouble and not by_id.is_done
    client.opened(takes_ids=True)
    assert (by_id.number, plain.number) == (1, 2)
    client.work()
    assert client.ingress.numbers() == [] and client.requests.submit(b"three", id=b"b").number == 3


def test_a_cluster_that_takes_no_ids_refuses_in_one_line_and_goes_on() -> None:
    client = Client()
    client.open()
    by_id, plain = client.requests.submit(b"one", id=b"a"), client.requests.submit(b"two")
    client.opened()
    client.now_ns += ID_PATIENCE_NS
    client.opened()
    with pytest.raises(
        ClusterTimeoutError, match=r"not executed: requests with an id need protocol level 3.*versions`\)$"
    ) as raised:
        by_id.result()
    assert raised.value.outcome is NOT_EXECUTED
    assert plain.number == 1


def test_a_journal_keeps_ids() -> None:
    store = MemoryJournal(None)
    client = Client(store)
    open_with_ids(client)
    client.requests.submit(b"one", id=b"payment 1")
    client.requests.submit(b"two")
    client.work()
    again = Client(store)
    assert [(one.number, one.payload, one.id) for one in again.requests.recovered] == [
        (1, b"one", b"payment 1"),
        (2, b"two", None),
    ]
    again.work()
    again.opened(takes_ids=True)
    assert [name for name, _ in again.ingress.sent if name != "OpenIdentity"] == ["RequestById", "Request"]


def test_an_id_takes_room_of_the_longest_payload() -> None:
    client = Client()
    open_with_ids(client)
    assert client.requests.submit(bytes(928), id=b"a").number == 1
    with pytest.raises(ClusterError, match="not executed: request of 929 bytes: at most 928") as raised:
        client.requests.submit(bytes(929), id=b"b")
    assert raised.value.outcome is NOT_EXECUTED


# What each error says


def test_every_status_of_an_answer_says_what_became_of_the_request() -> None:
    expected: dict[AnswerStatus, tuple[type[OrdoError], RequestOutcome]] = {
        AnswerStatus.REJECTED: (RejectedError, EXECUTED),
        AnswerStatus.TOO_LONG: (AnswerTooLongError, EXECUTED),
        AnswerStatus.ID_CONFLICT: (RequestIdError, NOT_EXECUTED),
        AnswerStatus.FORGOTTEN: (AnswerForgottenError, EXECUTED),
    }
    goes_on = {AnswerStatus.OK, AnswerStatus.WAIT, AnswerStatus.UNKNOWN}
    assert set(AnswerStatus) == set(expected) | goes_on, "a new status needs an outcome"
    for status, (kind, outcome) in expected.items():
        client = Client()
        (pending,) = client.open(1)
        client.answer(1, status, b"why")
        with pytest.raises(kind, match="why") as raised:
            pending.result()
        assert (raised.value.outcome, getattr(raised.value, "log_position", None)) == (outcome, 1001)


def lose(client: Client, how: str) -> None:
    if how == "close":
        client.requests.close(SessionClosedError("session 5 is over"))
    elif how == "fail":
        client.requests.fail(RegistrationError("the driver is gone", code=3))
    elif how == "expired":
        client.answer(1, AnswerStatus.UNKNOWN, b"")
        client.work()
        client.opened(status=OpenStatus.EXPIRED)
    else:
        client.answer(1, AnswerStatus.UNKNOWN, b"")
        client.work()
        client.opened(status=OpenStatus.SUPERSEDED)


@pytest.mark.parametrize("how", ["close", "fail", "expired", "superseded"])
def test_a_client_that_ends_says_of_each_request_whether_it_may_have_been_executed(how: str) -> None:
    client = Client()
    client.open()
    client.ingress.room = 1
    sent, unsent = client.requests.submit_many([b"one", b"two"])
    client.ingress.room = 10
    client.session.takes_messages = False
    assert (sent.was_sent, unsent.was_sent) == (True, False)
    lose(client, how)
    for pending, outcome, text in (
        (sent, UNKNOWN, "unknown whether it was executed: "),
        (unsent, NOT_EXECUTED, "not executed: "),
    ):
        assert pending.error is not None
        assert (pending.error.outcome, pending.error.message.startswith(text)) == (outcome, True)
    if how != "expired":
        with pytest.raises(OrdoError, match=r"^not executed: ") as raised:
            client.requests.submit(b"three")
        assert raised.value.outcome is NOT_EXECUTED


def test_an_answer_that_a_journal_has_lost_says_that_it_was_executed() -> None:
    store = MemoryJournal(None)
    Client(store).open(1)
    again = Client(store)
    again.work()
    again.opened(number=1, confirmed=1)
    (pending,) = again.requests.recovered
    assert isinstance(pending.error, IdentityError) and pending.error.outcome is EXECUTED
    assert pending.error.message.startswith("executed: ")


def test_a_wait_that_was_too_short_has_the_request_that_goes_on() -> None:
    client = Client()
    (pending,) = client.open(1)
    error: Any = client.requests.timeout(pending)
    assert isinstance(error, ClusterTimeoutError) and error.outcome is UNKNOWN and "unknown" in error.message
    assert error.pending is pending and client.requests.under_way == [pending]
    client.answer(1)
    assert error.pending.result() == Answer(b"yes", 1001, 1) and client.requests.under_way == []


def test_an_error_for_one_request_leaves_the_others_as_they_are() -> None:
    error = RegistrationError("gone", code=7)
    other = error.for_request(UNKNOWN)
    assert (other.message, other.code, other.outcome) == ("unknown whether it was executed: gone", 7, UNKNOWN)
    assert (error.message, error.outcome, error.pending) == ("gone", None, None)


def test_pending_requests_have_no_id_by_default() -> None:
    assert PendingRequest(b"x", None, lambda pending, timeout_s: None).id is None
