"""`check_hostile` finds what stops a service, and what changes it though it is refused."""

from __future__ import annotations

import json
from itertools import islice

import pytest

from ordo import ClientSession, Cluster, ClusteredService, Header, Reject, SnapshotReader, SnapshotWriter
from ordo.runtime.errors import ServiceCallError, ServiceError
from ordo.runtime.random import RandomSource
from ordo.service_api.testing.hostile import PAYLOAD_BYTES_MAX, hostile_payloads
from ordo.service_api.timers import check_timer
from ordo.testing import Input, Message, OpenSession, Query, ServiceHarness, check_hostile


class Sum(ClusteredService):
    """Takes numbers of a few digits."""

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        self.cluster = cluster
        self.total = int(snapshot.read()) if snapshot else 0

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        if len(payload) > 9 or not payload.isdigit():
            raise Reject("not a number")
        self.total += int(payload)
        return str(self.total).encode()

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        writer.write(str(self.total).encode())


class AnyNumber(Sum):
    """Trusts that what looks like a number is one that `int` converts."""

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        if not payload.isdigit():
            raise Reject("not a number")
        self.total = int(payload)
        return None


class AnyJson(Sum):
    """Has a parser descend as far as a client wants."""

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        try:
            value = json.loads(payload)
        except ValueError:
            raise Reject("not JSON") from None
        return b"%d" % len(value) if isinstance(value, str) else None


class AnyText(Sum):
    """Answers with text that UTF-8 does not have."""

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        try:
            value = json.loads(payload)
        except (ValueError, RecursionError):
            raise Reject("not JSON") from None
        return value.encode() if isinstance(value, str) else None


class AnyDeadline(Sum):
    """Sets a timer at whatever time it is told."""

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        if len(payload) > 40 or not payload.isdigit():
            raise Reject("not a number")
        self.cluster.schedule_timer(1, int(payload))
        return None


class Width(Sum):
    """Unpacks a number of eight bytes, and stores its square in as many."""

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        if len(payload) != 8:
            raise Reject("8 bytes, please")
        number = int.from_bytes(payload, "little")
        return (number * number).to_bytes(8, "little")


class Ghost(Sum):
    """Takes nothing from somebody whom it does not know."""

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        super().on_start(cluster, snapshot)
        self.accounts = {"ann": 100}

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        match payload.decode(errors="replace").split():
            case ["take", name, amount] if amount.isdecimal() and len(amount) < 9:
                if self.accounts.get(name, 0) < int(amount):
                    raise Reject("too little")
                self.accounts[name] -= int(amount)
                return b"taken"
        raise Reject("expected: take NAME AMOUNT")


class Late(Sum):
    """Refuses when it is too late."""

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        self.total += 1
        if not payload.isdigit():
            raise Reject("not a number")
        return None


class Unreadable(Sum):
    """Writes a number that it does not read again."""

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        self.total = -1 if payload == b"-1" else self.total
        return None

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        writer.write(b"minus one" if self.total < 0 else b"%d" % self.total)


def inputs(*payloads: bytes) -> list[OpenSession | Message]:
    return [OpenSession(1, 1), *(Message(1, 2 + place, one) for place, one in enumerate(payloads))]


def test_a_careful_service_passes() -> None:
    check_hostile(Sum, inputs(b"40", b"2"))


@pytest.mark.parametrize(
    ("service", "sample", "says"),
    [
        (
            AnyNumber,
            b"40",
            r"a client can stop it: payload b'999.* of 5\d{3} bytes raises ValueError: Exceeds",
        ),
        (AnyText, b'"x"', r"payload b.*ud800.* raises UnicodeEncodeError"),
        (AnyJson, b'"x"', r"a client can stop it: payload b'\[\[.*\.\.\. of \d+ bytes raises RecursionError"),
        (AnyDeadline, b"60", "raises ServiceCallError: schedule_timer: deadline=.*: must be a whole number of 64 bits"),
        (Width, bytes(8), "raises OverflowError"),
        (Ghost, b"take ann 1", "a client can stop it: payload b'take .* raises KeyError"),
        (Late, b"40", "a refused message has changed the state: payload b''; raise Reject before that"),
        (
            Unreadable,
            b"40",
            "a client can keep it from starting: its snapshot after .* raises ValueError",
        ),
    ],
)
def test_what_is_found(service: type[Sum], sample: bytes, says: str) -> None:
    with pytest.raises(ServiceError, match=says) as found:
        check_hostile(service, inputs(sample))
    assert len(found.value.message) < 400


def test_it_needs_a_message_of_a_client() -> None:
    with pytest.raises(ValueError, match="give messages of clients"):
        check_hostile(Sum, [OpenSession(1, 1), Query(b"")])


def test_the_payloads_are_the_same_each_time_and_no_longer_than_allowed() -> None:
    first, second = (
        list(islice(hostile_payloads([b"deposit ann 100"], RandomSource(7).stream("hostile")), 500)) for _ in range(2)
    )
    assert first == second and len(set(first)) > 200
    assert max(map(len, first)) <= PAYLOAD_BYTES_MAX


@pytest.mark.parametrize(("correlation_id", "deadline"), [(1, 1 << 63), (1 << 63, 1), (1, -(1 << 63) - 1), (1, 2.5)])
def test_a_timer_that_the_log_cannot_hold_is_refused(correlation_id: int, deadline: int) -> None:
    class Timed(Sum):
        def on_session_message(
            self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
        ) -> bytes | None:
            self.cluster.schedule_timer(correlation_id, deadline)
            return None

    with pytest.raises(ServiceCallError, match="must be a whole number of 64 bits"):
        ServiceHarness(Timed).execute(*inputs(b"1"))


class Known(Sum):
    """Takes messages of one session alone, and offers itself one that it refuses."""

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        if session is None:
            raise Reject("not from a client")
        if session.encoded_principal != b"ann":
            raise Reject("who is it?")
        if payload.startswith(b"9"):
            raise KeyError(payload)
        self.total += 1
        self.cluster.offer(b"noted")
        return None


class Timed(Sum):
    """Fails when its timer fires."""

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        self.cluster.schedule_timer(1, timestamp + 1_000)
        return None

    def on_timer_event(self, correlation_id: int, timestamp: int) -> None:
        raise KeyError(correlation_id)


def test_it_speaks_as_the_client_of_the_inputs_does() -> None:
    with pytest.raises(ServiceError, match=r"a client can stop it: payload b'9.* raises KeyError"):
        check_hostile(Known, [OpenSession(1, 1), OpenSession(2, 1, b"ann"), Message(2, 2, b"buy 1")])


def test_timers_that_were_set_fire() -> None:
    with pytest.raises(ServiceError, match="a client can stop it: a timer that it has set raises KeyError"):
        check_hostile(Timed, inputs(b"40"))


class Index:
    """A whole number of another library, as numpy has them."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


def test_whole_numbers_of_other_libraries_are_deadlines_as_well() -> None:
    check_timer(Index(1), Index(1 << 62))  # type: ignore[arg-type]
    with pytest.raises(ServiceCallError, match="must be a whole number of 64 bits"):
        check_timer(Index(1), Index(1 << 63))  # type: ignore[arg-type]


class NeedsArrival(Sum):
    """Takes for granted that a log says when messages arrived."""

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        if header.arrival_ns is None and timestamp > 2:
            raise ValueError("no arrival")
        return None


class RefusesArrival(Sum):
    """Takes for granted that it does not."""

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        if header.arrival_ns is not None and payload == b"0":
            raise ValueError("an arrival")
        return None


def test_messages_are_made_without_an_arrival_and_with_those_of_the_inputs() -> None:
    inputs: list[Input] = [OpenSession(1, 1), Message(1, 2, b"5", arrival_ns=17), Message(1, 2, b"6", arrival_ns=17)]
    check_hostile(Sum, inputs)
    with pytest.raises(ServiceError, match=r"^a client can stop it: payload b'' raises ValueError: no arrival"):
        check_hostile(NeedsArrival, inputs)
    with pytest.raises(ServiceError, match=r"^a client can stop it: payload b'0' with arrival_ns=17 raises ValueError"):
        check_hostile(RefusesArrival, inputs)
    check_hostile(RefusesArrival, [OpenSession(1, 1), Message(1, 2, b"5")])
