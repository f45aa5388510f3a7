"""Commands and responses (cnc-and-driver-protocol.md §6), byte for byte."""

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordo.runtime.errors import DecodeError
from ordo.transport.control import commands as c

CHANNEL = "aeron:udp?endpoint=a:1"
GOLDEN = [
    (c.AddPublication(1, 2, 3, "abc"), 0x01, struct.pack("<qqii3s", 1, 2, 3, 3, b"abc")),
    (c.RemovePublication(1, 2, 3, 1), 0x02, struct.pack("<qqqQ", 1, 2, 3, 1)),
    (c.AddExclusivePublication(1, 2, 3, "abc"), 0x03, struct.pack("<qqii3s", 1, 2, 3, 3, b"abc")),
    (c.AddSubscription(1, 2, -1, 3, "abc"), 0x04, struct.pack("<qqqii3s", 1, 2, -1, 3, 3, b"abc")),
    (c.RemoveSubscription(1, 2, 3), 0x05, struct.pack("<qqq", 1, 2, 3)),
    (c.ClientKeepalive(1, 2), 0x06, struct.pack("<qq", 1, 2)),
    (c.AddDestination(1, 2, 3, "abc"), 0x07, struct.pack("<qqqi3s", 1, 2, 3, 3, b"abc")),
    (c.RemoveDestination(1, 2, 3, "abc"), 0x08, struct.pack("<qqqi3s", 1, 2, 3, 3, b"abc")),
    (c.AddCounter(1, 2, 7, b"key!!", "lab"), 0x09, struct.pack("<qqii5s3xi3s", 1, 2, 7, 5, b"key!!", 3, b"lab")),
    (c.RemoveCounter(1, 2, 3), 0x0A, struct.pack("<qqq", 1, 2, 3)),
    (c.ClientClose(1, -1), 0x0B, struct.pack("<qq", 1, -1)),
    (c.AddReceiveDestination(1, 2, 3, "abc"), 0x0C, struct.pack("<qqqi3s", 1, 2, 3, 3, b"abc")),
    (c.RemoveReceiveDestination(1, 2, 3, "abc"), 0x0D, struct.pack("<qqqi3s", 1, 2, 3, 3, b"abc")),
    (c.TerminateDriver(1, 2, b"t\0"), 0x0E, struct.pack("<qqi2s", 1, 2, 2, b"t\0")),
    (c.AddStaticCounter(1, 2, 9, 7, b"k", "lab"), 0x0F, struct.pack("<qqqii1s3xi3s", 1, 2, 9, 7, 1, b"k", 3, b"lab")),
    (c.RejectImage(1, 2, 3, 64, "no"), 0x10, struct.pack("<qqqqi2s2x", 1, 2, 3, 64, 2, b"no")),
    (c.RemoveDestinationById(1, 2, 3, 4), 0x11, struct.pack("<qqqq", 1, 2, 3, 4)),
    (c.GetNextAvailableSessionId(1, 2, 3), 0x12, struct.pack("<qqi", 1, 2, 3)),
    (c.OnError(2, 11, "bad"), 0x0F01, struct.pack("<qii3s", 2, 11, 3, b"bad")),
    (
        c.OnAvailableImage(5, -6, 7, 8, 9, "/a/b.c", "1.2.3.4:5"),
        0x0F02,
        struct.pack("<qiiqii6s2xi9s", 5, -6, 7, 8, 9, 6, b"/a/b.c", 9, b"1.2.3.4:5"),
    ),
    (
        c.OnPublicationReady(2, 1, -6, 7, 8, -1, "/a"),
        0x0F03,
        struct.pack("<qqiiiii2s", 2, 1, -6, 7, 8, -1, 2, b"/a"),
    ),
    (c.OnOperationSuccess(2), 0x0F04, struct.pack("<q", 2)),
    (c.OnUnavailableImage(5, 8, 7, "abc"), 0x0F05, struct.pack("<qqii3s", 5, 8, 7, 3, b"abc")),
    (
        c.OnExclusivePublicationReady(2, 2, -6, 7, 8, 9, "/a"),
        0x0F06,
        struct.pack("<qqiiiii2s", 2, 2, -6, 7, 8, 9, 2, b"/a"),
    ),
    (c.OnSubscriptionReady(2, -1), 0x0F07, struct.pack("<qi", 2, -1)),
    (c.OnCounterReady(2, 9), 0x0F08, struct.pack("<qi", 2, 9)),
    (c.OnUnavailableCounter(2, 9), 0x0F09, struct.pack("<qi", 2, 9)),
    (c.OnClientTimeout(2), 0x0F0A, struct.pack("<q", 2)),
    (c.OnStaticCounter(2, 9), 0x0F0B, struct.pack("<qi", 2, 9)),
    (
        c.OnPublicationError(1, -1, 3, 4, 5, -1, 1, 40123, b"\x7f\0\0\1".ljust(16, b"\0"), 13, "x"),
        0x0F0C,
        struct.pack("<qqiiqqhH16sii1s3x", 1, -1, 3, 4, 5, -1, 1, 40123, b"\x7f\0\0\1", 13, 1, b"x"),
    ),
    (c.OnNextAvailableSessionId(2, 77), 0x0F0D, struct.pack("<qi", 2, 77)),
]


def decode(type_id: int, payload: bytes) -> Any:
    return (c.decode_command if type_id < 0x0F00 else c.decode_response)(type_id, payload)


@pytest.mark.parametrize(("message", "type_id", "payload"), GOLDEN, ids=lambda v: type(v).__name__)
def test_golden_bytes(message: Any, type_id: int, payload: bytes) -> None:
    assert c.type_id_of(message) == c.type_id_of(type(message)) == type_id
    assert c.encode(message) == payload
    assert decode(type_id, payload) == message


@pytest.mark.parametrize(("message", "type_id", "payload"), GOLDEN, ids=lambda v: type(v).__name__)
def test_longer_records_are_accepted_and_shorter_ones_are_not(message: Any, type_id: int, payload: bytes) -> None:
    assert decode(type_id, payload + bytes(8)) == message
    for length in range(len(payload)):
        try:
            assert decode(type_id, payload[:length]) is not None
        except DecodeError as error:
            assert type(message).__name__ in error.message
        else:
            # what may be left out: the flags of RemovePublication, and zeros that only fill a record up
            assert (type_id == 0x02 and length == 24) or (type_id in (0x10, 0x0F0C) and not any(payload[length:]))


def test_lengths_of_the_fixed_parts() -> None:
    assert len(c.encode(c.RejectImage(1, 2, 3, 4, ""))) == 40
    assert len(c.encode(c.OnPublicationError(1, 2, 3, 4, 5, 6, 1, 7, b"", 13, ""))) == 72


def test_old_remove_publication_has_no_flags() -> None:
    assert c.decode_command(0x02, struct.pack("<qqq", 1, 2, 3)) == c.RemovePublication(1, 2, 3, 0)


def test_unknown_types_are_none() -> None:
    assert c.decode_command(0x7F, b"") is None
    assert c.decode_response(0x01, b"") is None


def test_text_must_be_ascii() -> None:
    with pytest.raises(UnicodeEncodeError):
        c.encode(c.AddPublication(1, 2, 3, "ä"))
    with pytest.raises(DecodeError, match="not ASCII"):
        c.decode_command(0x01, struct.pack("<qqii1s", 1, 2, 3, 1, b"\xe4"))


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([*range(0x01, 0x13), *range(0x0F01, 0x0F0E)]), st.binary(max_size=80))
def test_decoders_let_out_decode_errors_only(type_id: int, payload: bytes) -> None:
    try:
        message = decode(type_id, payload)
    except DecodeError as error:
        assert "\n" not in error.message
    else:
        assert c.type_id_of(message) == type_id
