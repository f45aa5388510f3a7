"""The cluster's messages: byte for byte the golden vectors of sbe-encoding.md §10 and cluster-consensus.md §24."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordo.cluster.wire import codecs
from ordo.runtime.errors import DecodeError
from ordo.runtime.sbe import NULL_VALUES, Message
from tests.cluster.wire import layout_values

GOLDEN = [
    (
        codecs.SESSION_CONNECT_REQUEST,
        {
            "correlation_id": 11,
            "response_stream_id": 102,
            "version": 768,
            "response_channel": "aeron:udp?endpoint=localhost:9010",
            "client_info": "name= version=1.53.0 commit=abc",
        },
        "100003006f0011000b000000000000006600000000030000210000006165726f6e3a7564703f656e64706f696e743d6c6f63616c686f"
        "73743a39303130000000001f0000006e616d653d2076657273696f6e3d312e35332e3020636f6d6d69743d616263",
    ),
    (
        codecs.SESSION_EVENT,
        {
            "cluster_session_id": 1,
            "correlation_id": 11,
            "leadership_term_id": 0,
            "leader_member_id": 0,
            "code": codecs.EventCode.OK,
            "version": 768,
            "leader_heartbeat_timeout_ns": 10_000_000_000,
        },
        "2c0002006f00110001000000000000000b00000000000000000000000000000000000000000000000003000000e40b54020000000000"
        "0000",
    ),
    (
        codecs.SESSION_EVENT,
        {
            "cluster_session_id": -1,
            "correlation_id": 11,
            "leadership_term_id": 0,
            "leader_member_id": 2,
            "code": codecs.EventCode.REDIRECT,
            "version": 768,
            "leader_heartbeat_timeout_ns": 10_000_000_000,
            "detail": "0=h0:9000,1=h1:9000,2=h2:9000",
        },
        "2c0002006f001100ffffffffffffffff0b00000000000000000000000000000002000000020000000003000000e40b54020000001d00"
        "0000303d68303a393030302c313d68313a393030302c323d68323a39303030",
    ),
    (
        codecs.SESSION_MESSAGE_HEADER,
        {"leadership_term_id": 4, "cluster_session_id": 1, "timestamp": 0},
        "180001006f001100040000000000000001000000000000000000000000000000",
    ),
    (
        codecs.NEW_LEADER_EVENT,
        {
            "leadership_term_id": 5,
            "cluster_session_id": 1,
            "leader_member_id": 1,
            "ingress_endpoints": "0=h0:9000,1=h1:9000",
        },
        "140006006f001100050000000000000001000000000000000100000013000000303d68303a393030302c313d68313a39303030",
    ),
    (
        codecs.NEW_LEADERSHIP_TERM,
        {
            "log_leadership_term_id": 0,
            "next_leadership_term_id": 1,
            "next_term_base_log_position": 128,
            "next_log_position": -1,
            "leadership_term_id": 1,
            "term_base_log_position": 128,
            "log_position": 128,
            "leader_recording_id": 0,
            "timestamp": 1000,
            "leader_member_id": 2,
            "log_session_id": -5,
            "app_version": 1,
            "is_startup": 0,
            "commit_position": 96,
        },
        "600035006f001100000000000000000001000000000000008000000000000000ffffffffffffffff010000000000000080000000000000"
        "0080000000000000000000000000000000e80300000000000002000000fbffffff01000000000000006000000000000000",
    ),
    (
        codecs.NEW_LEADERSHIP_TERM_EVENT,
        {
            "leadership_term_id": 0,
            "log_position": 96,
            "timestamp": 1000,
            "term_base_log_position": 0,
            "leader_member_id": 0,
            "log_session_id": -5,
            "time_unit": codecs.ClusterTimeUnit.MILLIS,
            "app_version": 1,
        },
        "300018006f00110000000000000000006000000000000000e803000000000000000000000000000000000000fbffffff00000000010000"
        "00",
    ),
    (
        codecs.BACKUP_RESPONSE,
        {
            "correlation_id": 1,
            "log_recording_id": 0,
            "log_leadership_term_id": 0,
            "log_term_base_log_position": 0,
            "last_leadership_term_id": 0,
            "last_term_base_log_position": 0,
            "commit_position_counter_id": 30,
            "leader_member_id": 0,
            "member_id": 0,
            "snapshots": [
                {
                    "recording_id": 1,
                    "leadership_term_id": 0,
                    "term_base_log_position": 0,
                    "log_position": 320,
                    "timestamp": 1000,
                    "service_id": -1,
                }
            ],
            "cluster_members": "0,a:1,a:2,a:3,a:4,a:5",
        },
        "3c004e006f00110001000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
        "01e00000000000000000000002c0001000100000000000000000000000000000000000000000000004001000000000000e803000000000"
        "000ffffffff15000000302c613a312c613a322c613a332c613a342c613a35",
    ),
    (
        codecs.ADMIN_RESPONSE,
        {"cluster_session_id": 1, "correlation_id": 12, "request_type": 0, "response_code": 0},
        "18001b006f00110001000000000000000c0000000000000000000000000000000000000000000000",
    ),
    (
        codecs.CLUSTER_MEMBERS_EXTENDED_RESPONSE,
        {
            "correlation_id": 1,
            "current_time_ns": 2,
            "leader_member_id": 0,
            "member_id": 0,
            "active_members": [
                {
                    "leadership_term_id": 0,
                    "log_position": 64,
                    "time_of_last_append_ns": 2,
                    "member_id": 0,
                    "ingress_endpoint": "i",
                    "consensus_endpoint": "c",
                    "log_endpoint": "l",
                    "catchup_endpoint": "k",
                    "archive_endpoint": "a",
                }
            ],
        },
        "18002b006f0011000100000000000000020000000000000000000000000000001c00010000000000000000004000000000000000020000"
        "0000000000000000000100000069010000006301000000"
        "6c010000006b01000000611c000000",
    ),
]


def decoded_of(encoded: bytes) -> tuple[Message, Any]:
    found = codecs.decode(encoded)
    assert found is not None
    return found


@pytest.mark.parametrize(("message", "values", "expected"), GOLDEN, ids=lambda v: getattr(v, "name", None))
def test_golden_vectors(message: Message, values: dict[str, Any], expected: str) -> None:
    encoded = message.encode(**values)
    assert encoded.hex() == expected
    table, decoded = decoded_of(encoded)
    assert table is message
    for name, value in values.items():
        found = getattr(decoded, name)
        assert [entry._asdict() for entry in found] == value if isinstance(value, list) else found == value


# cluster-consensus.md §24: payloads of a real log and of real snapshots
RECORDED = [
    "300018006f00110000000000000000006000000000000000 3ff268fba10100000000000000000000000000009925b3160000000001000000",
    "240015006f001100000000000000000051000000000000000100000000000000 9cf368fba1010000660000002f000000"
    + b"aeron:udp?rejoin=false|endpoint=localhost:39384".hex()
    + "00000000",
    "180014006f00110000000000000000003700000000000000 14f468fba1010000",
    "200017006f00110000000000000000002003000000000000 e0f568fba10100000200000000000000",
    "1c0016006f00110000000000000000000100000000000000 92fc68fba101000000000000",
    "280064006f0011000200000000000000200300000000000000000000000000000000000000000000 0000000001000000",
    "0c0066006f0011000100000000000000660000002f000000"
    + b"aeron:udp?rejoin=false|endpoint=localhost:39384".hex()
    + "00000000",
    "1c0069006f001100020000000000000002000000000000800100000000000080 00000000",
    "280067006f00110001000000000000005100000000000000 0001000000000000ffffffffffffffff00000080660000002f000000"
    + b"aeron:udp?rejoin=false|endpoint=localhost:39384".hex(),
    "18006b006f00110002000000000000800100000000000080 0000000000000000",
]


@pytest.mark.parametrize("recorded", RECORDED)
def test_recorded_messages_come_back_byte_for_byte(recorded: str) -> None:
    encoded = bytes.fromhex(recorded.replace(" ", ""))
    table, values = decoded_of(encoded)
    assert table.encode(**values._asdict()) == encoded


def test_values_of_a_recorded_session_open() -> None:
    _, values = decoded_of(bytes.fromhex(RECORDED[1].replace(" ", "")))
    assert values.correlation_id == 0x51
    assert values.cluster_session_id == 1
    assert values.response_stream_id == 102
    assert values.response_channel == "aeron:udp?rejoin=false|endpoint=localhost:39384"
    assert values.encoded_principal == b""


# Block lengths of the specification's tables
BLOCK_LENGTHS = {
    3: 16, 8: 16, 1: 24, 5: 16, 4: 16, 26: 28, 2: 44, 7: 16, 6: 20, 27: 24,
    50: 32, 51: 32, 52: 36, 53: 96, 54: 21, 55: 20, 56: 20, 57: 12,
    75: 16, 76: 20, 77: 24, 78: 60, 79: 12, 80: 8, 81: 16,
    24: 48, 21: 36, 22: 28, 20: 24, 23: 32, 25: 40,
    40: 40, 42: 12, 108: 8, 33: 36, 31: 16, 32: 8, 30: 8, 34: 12, 41: 12, 43: 24,
    100: 40, 102: 12, 103: 40, 104: 16, 105: 28, 107: 24,
}  # fmt: skip


def test_block_lengths_are_the_specification_s() -> None:
    assert {template_id: message.block_length for template_id, message in codecs.MESSAGES.items()} == BLOCK_LENGTHS


def test_foreign_schemas_and_unknown_templates_are_none() -> None:
    assert codecs.decode(bytes.fromhex("1800010065001100") + bytes(24)) is None
    assert codecs.decode(bytes.fromhex("1800e7036f001100") + bytes(24)) is None
    assert codecs.decode(b"short") is None


def test_a_message_of_an_older_version_reads_as_null() -> None:
    """A SessionEvent of version 5 has neither version nor heartbeat timeout (sbe-encoding.md §7)."""
    old = bytes.fromhex("200002006f000500") + bytes(28) + bytes(4) + (2).to_bytes(4, "little") + b"hi"
    _, values = decoded_of(old)
    assert values.version == 0
    assert values.leader_heartbeat_timeout_ns == NULL_VALUES["i64"]
    assert values.detail == "hi"


@given(st.binary(max_size=200), st.sampled_from(sorted(codecs.MESSAGES)))
def test_a_decoder_lets_out_decode_errors_only(body: bytes, template_id: int) -> None:
    block_length = codecs.MESSAGES[template_id].block_length
    head = b"".join(n.to_bytes(2, "little") for n in (block_length, template_id, 111, 17))
    try:
        found = codecs.decode(head + body)
    except DecodeError:
        return
    assert found is not None


# Native layout

BY_NAME = {message.name: message for message in codecs.MESSAGES.values()}


@pytest.mark.parametrize(("name", "values"), layout_values.BLOCKS.items())
def test_native_blocks_agree_with_the_tables(name: str, values: tuple[int, int]) -> None:
    assert values == (BY_NAME[name].template_id, BY_NAME[name].block_length)


@pytest.mark.parametrize(("name", "template_id"), layout_values.TEMPLATES.items())
def test_native_template_ids_agree_with_the_tables(name: str, template_id: int) -> None:
    assert template_id == BY_NAME[name].template_id


@pytest.mark.parametrize(("field", "offset"), layout_values.OFFSETS.items(), ids=lambda v: str(v))
def test_native_offsets_agree_with_the_tables(field: tuple[str, str], offset: int) -> None:
    name, column = field
    zeros = {key: 0 for key in BY_NAME[name].value_type._fields if key not in ("response_channel", "encoded_principal")}
    encoded = BY_NAME[name].encode(**{**zeros, column: 1})
    assert [at for at, byte in enumerate(encoded) if byte and at >= 8] == [offset]


@given(*[st.integers(-(2**63), 2**63 - 1)] * 3)
def test_the_native_session_header_is_the_table_s(leadership_term_id: int, session_id: int, timestamp: int) -> None:
    expected = codecs.SESSION_MESSAGE_HEADER.encode(
        leadership_term_id=leadership_term_id, cluster_session_id=session_id, timestamp=timestamp
    )
    assert layout_values.session_header(leadership_term_id, session_id, timestamp) == expected


@pytest.mark.parametrize("length", range(40))
def test_the_native_template_id_wants_the_whole_block(length: int) -> None:
    message = (codecs.SESSION_MESSAGE_HEADER.encode(leadership_term_id=1) + b"payload!")[:length]
    if length:
        assert layout_values.template_id(message) == (1 if length >= 32 else -1)


def test_the_native_template_id_refuses_foreign_schemas() -> None:
    assert layout_values.template_id(bytes.fromhex("1800010065001100") + bytes(24)) == -1
