"""When messages arrived, as a leader writes it into its log: as its driver says, and never as a client does."""

from __future__ import annotations

from typing import Any

import pytest

from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.levels import ARRIVAL_LEVEL
from ordo.cluster.wire.sessions.arrivals import split_arrival
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.runtime.sbe import Message
from ordo.sequencer.hosts import ConsensusHost, IngressHost, LogHost, ServiceHost, SessionHost
from ordo.transport.streams.image import Image
from tests.archive.streams import Stream
from tests.cluster.module.member import TERM_ID, make_sequencer

NOW = 1_700_000_000_123
ARRIVAL_NS = 1_700_000_000_122_999_888
BEGIN, WITHIN, END = 0x80, 0x00, 0x40
REQUESTS = (ordo_codecs.REQUEST, ordo_codecs.REQUEST_BY_ID, ordo_codecs.OUTPUT, ordo_codecs.OUTPUT_BY_ID)


class Clients(SessionHost):
    """Each session may be claimed by whoever speaks first for it, and anybody may write outputs and commands."""

    def may_claim(self, session_id: int, image: Image) -> bool:
        return True

    def admits_command(self, image: Image, message: bytes) -> bool:
        return True

    def on_message_mark(self, session_id: int, number: int, position: int) -> None:
        """Nobody is told of it."""

    def admits_output(self, image: Image, session_id: int) -> bool:
        return True


class Refusals(IngressHost):
    def __init__(self) -> None:
        self.refused: list[str] = []

    def on_invalid_request(self, detail: str) -> None:
        self.refused.append(detail)


class Leader:
    """A leader with one client, in whose frames the driver writes when they arrived, where it `is_timed`."""

    def __init__(self, *, level: int = ARRIVAL_LEVEL, is_timed: bool = True) -> None:
        self.log, self.client = Stream(), Stream(session_id=100)
        self.sequencer, self.refusals = make_sequencer(), Refusals()
        self.sequencer.attach(LogHost(), self.refusals, Clients(), ConsensusHost(), ServiceHost())
        self.sequencer.set_level(level)
        self.sequencer.lead(TERM_ID, self.log.publication)
        self.sequencer.open_ingress(True)
        self.sequencer.sessions.put(1, 0)
        self.sequencer.add_ingress_image(self.client.image, is_timed=is_timed)

    def send(self, *parts: bytes, arrival_ns: int = ARRIVAL_NS) -> None:
        """One message in frames of these parts; the first arrives at a time, each other one a second later."""
        for index, part in enumerate(parts):
            with self.client.publication.try_claim(len(part)) as claim:
                claim.buffer[:] = part
                claim.flags = (BEGIN if index == 0 else WITHIN) | (END if index == len(parts) - 1 else WITHIN)
                claim.reserved_value = arrival_ns + index * 1_000_000_000

    def take(self) -> list[bytes]:
        """What is in the log then."""
        self.sequencer.poll_ingress(0, NOW)
        found: list[bytes] = []

        def on_fragment(payload: Any, header: Any) -> None:
            if header.flags & BEGIN:
                found.append(b"")
            found[-1] += bytes(payload)

        self.log.image.poll(on_fragment, 100)
        return found


def message_of(table: Message = codecs.SESSION_MESSAGE_HEADER, **fields: int) -> bytes:
    stamp = {"leadership_term_id": TERM_ID, "cluster_session_id": 1, "timestamp": 0}
    return table.encode(**stamp, **fields)


def request_of(table: Message) -> bytes:
    chosen = {"open_position": 96, "number": 3, "confirmed": 2, "request_id_high": 11, "request_id_low": 12}
    chosen.update(input_position=480, target_session_id=-1, output_index=1)
    return message_of(table, **{name: value for name, value in chosen.items() if table.offset_of(name) is not None})


def test_a_message_gets_its_arrival_behind_the_fields_that_it_always_had() -> None:
    leader = Leader()
    leader.send(message_of() + b"payload")
    [record] = leader.take()
    assert (
        record
        == bytes.fromhex("200001006f001100")
        + b"".join(value.to_bytes(8, "little") for value in (TERM_ID, 1, NOW, ARRIVAL_NS))
        + b"payload"
    )
    assert split_arrival(record) == (ARRIVAL_NS, record)


@pytest.mark.parametrize("table", REQUESTS, ids=lambda table: table.name)
def test_a_request_of_each_kind_is_itself_without_its_arrival(table: Message) -> None:
    """Its own template: what a client sends as a Request of another length is none with an arrival."""
    plain, timed = Leader(is_timed=False), Leader()
    for leader in (plain, timed):
        leader.send(request_of(table) + b"payload")
    [expected], [record] = plain.take(), timed.take()
    assert int.from_bytes(record[2:4], "little") == ordo_codecs.ARRIVED_REQUEST.template_id
    assert split_arrival(expected) == (None, expected)
    assert split_arrival(record) == (ARRIVAL_NS, expected)
    assert len(record) == len(expected) + 8 and record.endswith(ARRIVAL_NS.to_bytes(8, "little") + b"payload")
    assert ordo_codecs.decode_request(split_arrival(record)[1])[0] is table


def test_a_message_in_several_frames_arrives_with_the_first() -> None:
    leader = Leader()
    leader.send(message_of() + b"one ", b"two ", b"three")
    leader.send(request_of(ordo_codecs.REQUEST) + b"four ", b"five")
    found = [split_arrival(record) for record in leader.take()]
    assert [arrival_ns for arrival_ns, _ in found] == [ARRIVAL_NS] * 2
    assert [record[-13:] for _, record in found] == [b"one two three", found[1][1][-13:]]
    assert found[1][1].endswith(b"four five")


@pytest.mark.parametrize("arrival_ns", [0, -1, -(2**63)])
def test_what_the_driver_did_not_note_is_not_said(arrival_ns: int) -> None:
    leader = Leader()
    for table in (codecs.SESSION_MESSAGE_HEADER, ordo_codecs.REQUEST):
        leader.send(message_of(table) + b"payload", arrival_ns=arrival_ns)
    records = leader.take()
    assert [split_arrival(record) for record in records] == [(None, record) for record in records]
    assert [len(record) for record in records] == [32 + 7, 56 + 7]


@pytest.mark.parametrize(("level", "is_timed"), [(ARRIVAL_LEVEL - 1, True), (ARRIVAL_LEVEL, False)])
def test_the_log_of_a_lower_level_and_streams_without_times_have_none(level: int, is_timed: bool) -> None:
    """What a client writes into its frames of shared memory is no time of arrival."""
    leader = Leader(level=level, is_timed=is_timed)
    for table in (codecs.SESSION_MESSAGE_HEADER, ordo_codecs.REQUEST):
        leader.send(message_of(table) + b"payload")
    assert [len(record) for record in leader.take()] == [32 + 7, 56 + 7]


def test_what_services_do_not_see_is_as_it_was() -> None:
    leader, other = Leader(), Leader(is_timed=False)
    for one in (leader, other):
        one.send(message_of(ordo_codecs.CONSUMER_COMMAND, member_key=1, number=1) + b"name")
        one.send(message_of(ordo_codecs.MESSAGE_MARK, number=5, previous_session_id=NULL_VALUE))
    records = leader.take()
    assert len(records) == 2 and records == other.take()


def test_no_client_says_when_its_message_arrived() -> None:
    """Neither in a longer header of a message, nor in a request that only leaders write."""
    leader = Leader()
    forged = (1).to_bytes(8, "little")
    longer = bytearray(message_of() + forged + b"payload")
    longer[0] = 32
    leader.send(bytes(longer), arrival_ns=0)
    leader.send(message_of(ordo_codecs.ARRIVED_REQUEST, open_position=96, number=3, confirmed=2) + forged + b"payload")
    records = leader.take()
    assert [split_arrival(record) for record in records] == [(None, records[0])]
    assert records[0][32:] == forged + b"payload", "the payload of a client begins where it always did"
    assert [text for text in leader.refusals.refused if "no cluster message" in text]


def test_a_message_that_just_fits_the_log_has_no_arrival_and_does_not_wait_for_ever() -> None:
    leader = Leader()
    head, longest = message_of(), leader.log.publication.max_message_length
    for length in (longest, longest - 8):
        rest = bytes(length - len(head))
        leader.send(*(part for part in (head, *(rest[at : at + 1024] for at in range(0, len(rest), 1024)))))
        [record] = leader.take()
        assert len(record) == longest
        assert split_arrival(record)[0] == (None if length == longest else ARRIVAL_NS)


def test_a_request_longer_than_any_kind_that_is_known_has_no_arrival() -> None:
    leader = Leader()
    longer = bytearray(request_of(ordo_codecs.OUTPUT_BY_ID) + bytes(8) + b"payload")
    longer[0] += 8
    leader.send(bytes(longer))
    [record] = leader.take()
    assert split_arrival(record) == (None, record) and record[:8] == longer[:8]
