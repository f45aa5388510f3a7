"""Simple Binary Encoding, with every golden vector of sbe-encoding.md §10."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordo.cluster.wire import codecs
from ordo.runtime.errors import DecodeError
from ordo.runtime.sbe import NULL_VALUES, Message, by_template_id, read_header


def archive(name: str, template_id: int, columns: str, *data: tuple[str, str, int]) -> Message:
    fields = [tuple(column.split()) for column in columns.split(";")]
    table = [(f[0], f[1], int(f[2]) if len(f) > 2 else 0) for f in fields]
    return Message(name, template_id, 101, 14, fields=table, data=data)


AUTH_CONNECT_REQUEST = archive(
    "AuthConnectRequest",
    58,
    "correlation_id i64;response_stream_id i32;version version_t",
    ("response_channel", "ascii", 0),
    ("encoded_credentials", "bytes", 0),
    ("client_info", "ascii", 12),
)
CONTROL_RESPONSE = archive(
    "ControlResponse",
    1,
    "control_session_id i64;correlation_id i64;relevant_id i64;code i32;version version_t 4",
    ("error_message", "ascii", 0),
)
REPLAY_REQUEST = archive(
    "ReplayRequest",
    6,
    "control_session_id i64;correlation_id i64;recording_id i64;position i64;length i64;replay_stream_id i32;"
    "file_io_max_length i32 7;replay_token i64 10",
    ("replay_channel", "ascii", 0),
)
RECORDING_DESCRIPTOR = archive(
    "RecordingDescriptor",
    22,
    "control_session_id i64;correlation_id i64;recording_id i64;start_timestamp i64;stop_timestamp i64;"
    "start_position i64;stop_position i64;initial_term_id i32;segment_file_length i32;term_buffer_length i32;"
    "mtu_length i32;session_id i32;stream_id i32",
    ("stripped_channel", "ascii", 0),
    ("original_channel", "ascii", 0),
    ("source_identity", "ascii", 0),
)
RECORDING_SIGNAL_EVENT = archive(
    "RecordingSignalEvent",
    24,
    "control_session_id i64;correlation_id i64;recording_id i64;subscription_id i64;position i64;signal i32",
)
PING = archive("Ping", 106, "control_session_id i64")
CLUSTER_MARK = Message(
    "MarkFileHeader",
    200,
    110,
    2,
    fields=[
        ("version", "i32"),
        ("component_type", "i32"),
        ("activity_timestamp", "i64"),
        ("start_timestamp", "i64"),
        ("pid", "i64"),
        ("candidate_term_id", "i64"),
        ("archive_stream_id", "i32"),
        ("service_stream_id", "i32"),
        ("consensus_module_stream_id", "i32"),
        ("ingress_stream_id", "i32"),
        ("member_id", "i32"),
        ("service_id", "i32"),
        ("header_length", "i32"),
        ("error_buffer_length", "i32"),
        ("cluster_id", "i32"),
    ],
    data=[
        ("aeron_directory", "ascii"),
        ("control_channel", "ascii"),
        ("ingress_channel", "ascii"),
        ("service_name", "ascii"),
        ("authenticator", "ascii"),
        ("services_cluster_dir", "ascii", 1),
    ],
    block_length=128,
)
ARCHIVE_MARK = Message(
    "MarkFileHeader",
    200,
    100,
    2,
    fields=[
        ("version", "i32"),
        ("", "pad4"),
        ("activity_timestamp", "i64"),
        ("start_timestamp", "i64"),
        ("pid", "i64"),
        ("control_stream_id", "i32"),
        ("local_control_stream_id", "i32"),
        ("events_stream_id", "i32"),
        ("header_length", "length_t", 1),
        ("error_buffer_length", "length_t", 1),
        ("", "pad4"),
        ("archive_id", "archiveId_t", 2),
    ],
    data=[
        ("control_channel", "ascii"),
        ("local_control_channel", "ascii"),
        ("events_channel", "ascii"),
        ("aeron_directory", "ascii"),
    ],
    block_length=128,
)
V1_12_0, V0_3_0 = 0x010C00, 0x000300
MEMBERS = "0=h0:9000,1=h1:9000,2=h2:9000"
SNAPSHOT = dict(
    recording_id=1, leadership_term_id=0, term_base_log_position=0, log_position=320, timestamp=1000, service_id=-1
)
MEMBER = dict(
    leadership_term_id=0,
    log_position=64,
    time_of_last_append_ns=2,
    member_id=0,
    ingress_endpoint="i",
    consensus_endpoint="c",
    log_endpoint="l",
    catchup_endpoint="k",
    archive_endpoint="a",
)
RESPONSE_9010 = "aeron:udp?endpoint=localhost:9010"

VECTORS: list[tuple[Message, dict[str, Any], str]] = [
    (
        AUTH_CONNECT_REQUEST,
        dict(
            correlation_id=7,
            response_stream_id=20,
            version=V1_12_0,
            response_channel="aeron:udp?endpoint=localhost:8020",
        ),
        "10003a0065000e00070000000000000014000000000c0100210000006165726f6e3a7564703f656e64706f696e743d6c6f63616c686f7374"
        "3a383032300000000000000000",
    ),
    (
        CONTROL_RESPONSE,
        dict(control_session_id=5, correlation_id=7, relevant_id=5, code=0, version=V1_12_0),
        "2000010065000e0005000000000000000700000000000000050000000000000000000000000c010000000000",
    ),
    (
        CONTROL_RESPONSE,
        dict(
            control_session_id=5,
            correlation_id=8,
            relevant_id=5,
            code=1,
            version=V1_12_0,
            error_message="unknown recording id: 3",
        ),
        "2000010065000e0005000000000000000800000000000000050000000000000001000000000c010017000000756e6b6e6f776e207265636f"
        "7264696e672069643a2033",
    ),
    (
        REPLAY_REQUEST,
        dict(
            control_session_id=5,
            correlation_id=9,
            recording_id=3,
            position=0,
            length=-1,
            replay_stream_id=1033,
            file_io_max_length=-1,
            replay_token=-1,
            replay_channel="aeron:ipc",
        ),
        "3800060065000e000500000000000000090000000000000003000000000000000000000000000000ffffffffffffffff09040000ffffffff"
        "ffffffffffffffff090000006165726f6e3a697063",
    ),
    (
        RECORDING_DESCRIPTOR,
        dict(
            control_session_id=5,
            correlation_id=10,
            recording_id=3,
            start_timestamp=1000,
            stop_timestamp=-1,
            start_position=0,
            stop_position=-1,
            initial_term_id=-7,
            segment_file_length=134217728,
            term_buffer_length=65536,
            mtu_length=1408,
            session_id=42,
            stream_id=1001,
            stripped_channel="aeron:ipc",
            original_channel="aeron:ipc?alias=x",
            source_identity="aeron:ipc",
        ),
        "5000160065000e0005000000000000000a000000000000000300000000000000e803000000000000ffffffffffffffff0000000000000000"
        "fffffffffffffffff9ffffff0000000800000100800500002a000000e9030000090000006165726f6e3a697063110000006165726f6e3a69"
        "70633f616c6961733d78090000006165726f6e3a697063",
    ),
    (
        RECORDING_SIGNAL_EVENT,
        dict(control_session_id=5, correlation_id=10, recording_id=3, subscription_id=77, position=64, signal=1),
        "2c00180065000e0005000000000000000a0000000000000003000000000000004d00000000000000400000000000000001000000",
    ),
    (PING, dict(control_session_id=5), "08006a0065000e000500000000000000"),
    (
        codecs.SESSION_CONNECT_REQUEST,
        dict(
            correlation_id=11,
            response_stream_id=102,
            version=V0_3_0,
            response_channel=RESPONSE_9010,
            client_info="name= version=1.53.0 commit=abc",
        ),
        "100003006f0011000b000000000000006600000000030000210000006165726f6e3a7564703f656e64706f696e743d6c6f63616c686f7374"
        "3a39303130000000001f0000006e616d653d2076657273696f6e3d312e35332e3020636f6d6d69743d616263",
    ),
    (
        codecs.SESSION_EVENT,
        dict(
            cluster_session_id=1,
            correlation_id=11,
            leadership_term_id=0,
            leader_member_id=0,
            code=0,
            version=V0_3_0,
            leader_heartbeat_timeout_ns=10_000_000_000,
        ),
        "2c0002006f00110001000000000000000b00000000000000000000000000000000000000000000000003000000e40b5402000000"
        "00000000",
    ),
    (
        codecs.SESSION_EVENT,
        dict(
            cluster_session_id=-1,
            correlation_id=11,
            leadership_term_id=0,
            leader_member_id=2,
            code=2,
            version=V0_3_0,
            leader_heartbeat_timeout_ns=10_000_000_000,
            detail=MEMBERS,
        ),
        "2c0002006f001100ffffffffffffffff0b00000000000000000000000000000002000000020000000003000000e40b54020000001d000000"
        "303d68303a393030302c313d68313a393030302c323d68323a39303030",
    ),
    (
        codecs.SESSION_MESSAGE_HEADER,
        dict(leadership_term_id=4, cluster_session_id=1, timestamp=0),
        "180001006f001100040000000000000001000000000000000000000000000000",
    ),
    (
        codecs.NEW_LEADER_EVENT,
        dict(
            leadership_term_id=5,
            cluster_session_id=1,
            leader_member_id=1,
            ingress_endpoints="0=h0:9000,1=h1:9000",
        ),
        "140006006f001100050000000000000001000000000000000100000013000000303d68303a393030302c313d68313a39303030",
    ),
    (
        codecs.NEW_LEADERSHIP_TERM,
        dict(
            log_leadership_term_id=0,
            next_leadership_term_id=1,
            next_term_base_log_position=128,
            next_log_position=-1,
            leadership_term_id=1,
            term_base_log_position=128,
            log_position=128,
            leader_recording_id=0,
            timestamp=1000,
            leader_member_id=2,
            log_session_id=-5,
            app_version=1,
            is_startup=0,
            commit_position=96,
        ),
        "600035006f001100000000000000000001000000000000008000000000000000ffffffffffffffff01000000000000008000000000000000"
        "80000000000000000000000000000000e80300000000000002000000fbffffff01000000000000006000000000000000",
    ),
    (
        codecs.NEW_LEADERSHIP_TERM_EVENT,
        dict(
            leadership_term_id=0,
            log_position=96,
            timestamp=1000,
            term_base_log_position=0,
            leader_member_id=0,
            log_session_id=-5,
            time_unit=0,
            app_version=1,
        ),
        "300018006f00110000000000000000006000000000000000e803000000000000000000000000000000000000fbffffff0000000001000000",
    ),
    (
        codecs.BACKUP_RESPONSE,
        dict(
            correlation_id=1,
            log_recording_id=0,
            log_leadership_term_id=0,
            log_term_base_log_position=0,
            last_leadership_term_id=0,
            last_term_base_log_position=0,
            commit_position_counter_id=30,
            leader_member_id=0,
            member_id=0,
            snapshots=[SNAPSHOT],
            cluster_members="0,a:1,a:2,a:3,a:4,a:5",
        ),
        "3c004e006f0011000100000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000001e"
        "00000000000000000000002c0001000100000000000000000000000000000000000000000000004001000000000000e803000000000000ff"
        "ffffff15000000302c613a312c613a322c613a332c613a342c613a35",
    ),
    (
        codecs.ADMIN_RESPONSE,
        dict(cluster_session_id=1, correlation_id=12, request_type=0, response_code=0),
        "18001b006f00110001000000000000000c0000000000000000000000000000000000000000000000",
    ),
    (
        codecs.CLUSTER_MEMBERS_EXTENDED_RESPONSE,
        dict(
            correlation_id=1,
            current_time_ns=2,
            leader_member_id=0,
            member_id=0,
            active_members=[MEMBER],
            passive_members=[],
        ),
        "18002b006f0011000100000000000000020000000000000000000000000000001c0001000000000000000000400000000000000002000000"
        "000000000000000001000000690100000063010000006c010000006b01000000611c000000",
    ),
    (
        CLUSTER_MARK,
        dict(
            version=V0_3_0,
            component_type=1,
            activity_timestamp=2000,
            start_timestamp=1000,
            pid=99,
            candidate_term_id=-1,
            archive_stream_id=10,
            service_stream_id=104,
            consensus_module_stream_id=105,
            ingress_stream_id=101,
            member_id=0,
            service_id=-1,
            header_length=8192,
            error_buffer_length=1 << 20,
            cluster_id=0,
            aeron_directory="/dev/shm/aeron",
            control_channel="aeron:ipc?term-length=128k",
            ingress_channel="aeron:udp",
            authenticator="x",
            services_cluster_dir="/c",
        ),
        "8000c8006e0002000003000001000000d007000000000000e8030000000000006300000000000000ffffffffffffffff0a0000006800"
        "0000690000006500000000000000ffffffff002000000000100000000000000000000000000000000000000000000000000000000000"
        "000000000000000000000000000000000000000000000000000000000e0000002f6465762f73686d2f6165726f6e1a0000006165726f"
        "6e3a6970633f7465726d2d6c656e6774683d3132386b090000006165726f6e3a756470000000000100000078020000002f63",
    ),
    (
        ARCHIVE_MARK,
        dict(
            version=0x030100,
            activity_timestamp=2000,
            start_timestamp=1000,
            pid=99,
            control_stream_id=10,
            local_control_stream_id=10,
            events_stream_id=30,
            header_length=8192,
            error_buffer_length=1 << 20,
            archive_id=12,
            control_channel="aeron:udp?endpoint=localhost:8010",
            local_control_channel="aeron:ipc?term-length=64k",
            aeron_directory="/dev/shm/aeron",
        ),
        "8000c800640002000001030000000000d007000000000000e80300000000000063000000000000000a0000000a0000001e0000000020"
        "000000001000000000000c00000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
        "00000000000000000000000000000000000000000000000000000000210000006165726f6e3a7564703f656e64706f696e743d6c6f63"
        "616c686f73743a38303130190000006165726f6e3a6970633f7465726d2d6c656e6774683d36346b000000000e0000002f6465762f73"
        "686d2f6165726f6e",
    ),
]
VECTOR_NAMES = [f"{vector[0].name}-{number}" for number, vector in enumerate(VECTORS)]


@pytest.mark.parametrize(("message", "values", "golden"), VECTORS, ids=VECTOR_NAMES)
def test_golden_vectors_both_ways(message: Message, values: dict[str, Any], golden: str) -> None:
    assert message.encode(**values).hex() == golden
    decoded = message.decode(bytes.fromhex(golden))
    for name, value in values.items():
        found = getattr(decoded, name)
        assert [entry._asdict() for entry in found] == value if isinstance(value, list) else found == value


def test_node_state_file_of_section_10() -> None:
    candidate_term = Message(
        "CandidateTerm",
        301,
        112,
        10,
        fields=[("candidate_term_id", "i64"), ("timestamp", "i64"), ("log_position", "i64")],
    )
    body = candidate_term.encode_body(candidate_term_id=-1, timestamp=-1, log_position=-1)
    golden = bytes.fromhex(
        "000300000000000018002d0170000a002800000000000000ffffffffffffffffffffffffffffffffffffffffffffffff0000300170000a0010"
        "00000000000000"
    )
    assert golden[24:48] == body
    header = read_header(golden, 8)
    assert header == (candidate_term.block_length, 301, 112, 10)
    assert candidate_term.decode_body(golden, 24, header.block_length, header.version) == (-1, -1, -1)


def test_text_form_names_ids_and_values() -> None:
    value = PING.decode(PING.encode(control_session_id=5))
    assert PING.describe(value) == (
        "[Ping](sbeTemplateId=106|sbeSchemaId=101|sbeSchemaVersion=14|sbeBlockLength=8):control_session_id=5"
    )


OLD = Message("Sample", 1, 9, 1, fields=[("a", "i64"), ("b", "i32", 1)], data=[("text", "ascii")])
NEW = Message(
    "Sample",
    1,
    9,
    3,
    fields=[("a", "i64"), ("b", "i32", 1), ("c", "version_t", 2), ("d", "u16", 3)],
    data=[("text", "ascii"), ("more", "bytes", 2)],
)


def test_fields_newer_than_the_encoder_read_as_null() -> None:
    assert NEW.decode(OLD.encode(a=1, b=2, text="x")) == (1, 2, 0, 65535, "x", b"")


def test_fields_newer_than_the_decoder_are_skipped() -> None:
    assert OLD.decode(NEW.encode(a=1, b=2, c=3, d=4, text="x", more=b"y")) == (1, 2, "x")


def test_values_not_given_are_null() -> None:
    assert NEW.decode(NEW.encode()) == (NULL_VALUES["i64"], NULL_VALUES["i32"], 0, 65535, "", b"")


def test_encoder_refuses_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        OLD.encode(b=1 << 31)
    with pytest.raises(TypeError, match="no field zz; allowed: a, b, text"):
        OLD.encode(zz=1)
    with pytest.raises(UnicodeEncodeError):
        OLD.encode(text="ä")
    with pytest.raises(ValueError, match="type 'i7'"):
        Message("Bad", 1, 1, 1, fields=[("a", "i7")])


def test_decoder_refuses_another_message_and_a_short_block() -> None:
    with pytest.raises(DecodeError, match="not a Ping"):
        PING.decode(OLD.encode(a=1))
    with pytest.raises(DecodeError, match="too short for b"):
        OLD.decode(bytes.fromhex("08000100090001000000000000000000"))
    with pytest.raises(DecodeError, match="not ASCII"):
        OLD.decode(OLD.encode(a=1, b=1)[:-4] + b"\x01\0\0\0\xff")


@pytest.mark.parametrize(("message", "values", "golden"), VECTORS, ids=VECTOR_NAMES)
def test_every_cut_is_refused(message: Message, values: dict[str, Any], golden: str) -> None:
    whole = bytes.fromhex(golden)
    for length in range(len(whole)):
        with pytest.raises(DecodeError):
            message.decode(whole[:length])


@given(st.sampled_from(VECTORS), st.data())
def test_damaged_bytes_decode_or_raise_decode_error_only(
    vector: tuple[Message, dict[str, Any], str], data: st.DataObject
) -> None:
    damaged = bytearray.fromhex(vector[2])
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        value = vector[0].decode(bytes(damaged))
    except DecodeError:
        return
    assert len(value) == len(vector[0].value_type._fields)


@given(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(2**31), 2**31 - 1),
    st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=20)), max_size=5),
    st.text(st.characters(max_codepoint=127), max_size=30),
)
def test_what_was_encoded_is_decoded(a: int, b: int, entries: list[tuple[int, bytes]], text: str) -> None:
    message = Message(
        "Everything",
        1,
        2,
        3,
        fields=[("a", "i64"), ("b", "i32")],
        groups=[("parts", [("kind", "u8")], [("body", "bytes")])],
        data=[("text", "ascii")],
    )
    parts = [{"kind": kind, "body": body} for kind, body in entries]
    decoded = message.decode(b"xyz" + message.encode(a=a, b=b, parts=parts, text=text), offset=3)
    assert (decoded.a, decoded.b, decoded.text) == (a, b, text)
    assert [tuple(part) for part in decoded.parts] == entries


def test_two_messages_of_one_number_are_refused() -> None:
    first, second, other = Message("First", 7, 1, 0), Message("Second", 7, 1, 0), Message("Other", 8, 1, 0)
    assert by_template_id([first, other, first, "no message"]) == {7: first, 8: other}
    with pytest.raises(ValueError, match="two messages have the template id 7: First and Second"):
        by_template_id([first, other, second])
