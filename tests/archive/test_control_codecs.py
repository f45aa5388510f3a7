"""Control messages against the golden vectors of sbe-encoding.md §10, made by Aeron's own encoders."""

from __future__ import annotations

from typing import Any

import pytest

from ordo.archive.protocol import codecs
from ordo.archive.protocol.codes import PROTOCOL_VERSION, RecordingSignal, ResponseCode
from ordo.runtime.errors import DecodeError
from ordo.runtime.sbe import Message, decode_one_of

VECTORS: list[tuple[Message, dict[str, Any], str]] = [
    (
        codecs.AUTH_CONNECT_REQUEST,
        dict(
            correlation_id=7, response_stream_id=20, version=PROTOCOL_VERSION,
            response_channel="aeron:udp?endpoint=localhost:8020", encoded_credentials=b"", client_info="",
        ),
        "10003a0065000e00070000000000000014000000000c0100210000006165726f6e3a7564703f656e64706f696e743d6c6f63616c686f7374"
        "3a383032300000000000000000",
    ),
    (
        codecs.CONTROL_RESPONSE,
        dict(
            control_session_id=5, correlation_id=8, relevant_id=5, code=ResponseCode.ERROR, version=PROTOCOL_VERSION,
            error_message="unknown recording id: 3",
        ),
        "2000010065000e0005000000000000000800000000000000050000000000000001000000000c010017000000756e6b6e6f776e207265636f"
        "7264696e672069643a2033",
    ),
    (
        codecs.REPLAY_REQUEST,
        dict(
            control_session_id=5, correlation_id=9, recording_id=3, position=0, length=-1, replay_stream_id=1033,
            file_io_length_max=-1, replay_token=-1, replay_channel="aeron:ipc",
        ),
        "3800060065000e000500000000000000090000000000000003000000000000000000000000000000ffffffffffffffff09040000ffffffff"
        "ffffffffffffffff090000006165726f6e3a697063",
    ),
    (
        codecs.RECORDING_DESCRIPTOR,
        dict(
            control_session_id=5, correlation_id=10, recording_id=3, start_timestamp=1000, stop_timestamp=-1,
            start_position=0, stop_position=-1, initial_term_id=-7, segment_length=134217728, term_length=65536,
            mtu=1408, session_id=42, stream_id=1001, stripped_channel="aeron:ipc",
            original_channel="aeron:ipc?alias=x", source_identity="aeron:ipc",
        ),
        "5000160065000e0005000000000000000a000000000000000300000000000000e803000000000000ffffffffffffffff0000000000000000"
        "fffffffffffffffff9ffffff0000000800000100800500002a000000e9030000090000006165726f6e3a697063110000006165726f6e3a69"
        "70633f616c6961733d78090000006165726f6e3a697063",
    ),
    (
        codecs.RECORDING_SIGNAL_EVENT,
        dict(
            control_session_id=5, correlation_id=10, recording_id=3, subscription_id=77, position=64,
            signal=RecordingSignal.STOP,
        ),
        "2c00180065000e0005000000000000000a0000000000000003000000000000004d00000000000000400000000000000001000000",
    ),
    (codecs.PING, dict(control_session_id=5), "08006a0065000e000500000000000000"),
]  # fmt: skip
BLOCK_LENGTHS = {
    58: 16, 60: 16, 61: 16, 3: 8, 4: 24, 63: 28, 5: 20, 14: 24, 65: 24, 11: 32, 64: 36, 6: 56, 18: 60, 7: 24, 19: 24,
    8: 28, 9: 32, 10: 24, 16: 32, 17: 32, 12: 24, 52: 24, 15: 24, 67: 24, 68: 16, 13: 32, 104: 24, 105: 24, 53: 32,
    54: 24, 55: 32, 56: 24, 57: 32, 107: 24, 1: 32, 59: 20, 22: 80, 23: 28, 24: 44, 106: 8,
    50: 36, 51: 24, 62: 52, 66: 68, 101: 24, 102: 24, 103: 24,
}  # fmt: skip
"""archive.md A2."""


@pytest.mark.parametrize(("message", "values", "vector"), VECTORS, ids=lambda value: getattr(value, "name", ""))
def test_bytes_are_those_of_aerons_encoders(message: Message, values: dict[str, Any], vector: str) -> None:
    assert message.encode(**values).hex() == vector
    assert message.decode(bytes.fromhex(vector))._asdict() == values


def test_every_block_is_as_long_as_the_schema_says() -> None:
    assert {template_id: message.block_length for template_id, message in codecs.MESSAGES.items()} == BLOCK_LENGTHS


@pytest.mark.parametrize(("message", "values", "vector"), VECTORS, ids=lambda value: getattr(value, "name", ""))
def test_a_message_that_is_cut_anywhere_is_an_error_of_one_kind(
    message: Message, values: dict[str, Any], vector: str
) -> None:
    whole = bytes.fromhex(vector)
    for length in range(8, len(whole)):
        with pytest.raises(DecodeError):
            decode_one_of(codecs.SCHEMAS, whole[:length])
