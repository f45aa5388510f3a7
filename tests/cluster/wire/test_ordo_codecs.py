"""Messages and counter values of Ordo's own (docs/spec/ordo-messages.md)."""

import pytest

from ordo.cluster.wire import codecs, consensus_codec, ordo_codecs
from ordo.cluster.wire.counters.counter_types import ControlToggle, is_transfer, transfer_target, transfer_value
from ordo.consensus.state.messages import Lead, NewLeadershipTerm, RequestVote, TimeoutNow
from ordo.runtime.errors import DecodeError


def test_a_flagged_request_for_a_vote_differs_from_aerons_in_schema_and_template_only() -> None:
    plain = RequestVote(3, 4096, 7, 2)
    flagged = plain._replace(is_transfer=True)
    assert consensus_codec.decode(consensus_codec.encode(plain)) == plain
    assert consensus_codec.decode(consensus_codec.encode(flagged)) == flagged
    assert consensus_codec.encode(plain)[8:] == consensus_codec.encode(flagged)[8:]
    assert consensus_codec.encode(plain)[2:6] == bytes.fromhex("33006f00")
    assert consensus_codec.encode(flagged)[:8] == bytes.fromhex("2000020085030100")


def test_timeout_now_reads_back_and_has_its_bytes() -> None:
    message = TimeoutNow(5, 1024, 0, 2)
    encoded = consensus_codec.encode(message)
    assert encoded.hex() == "1800010085030100050000000000000000040000000000000000000002000000"
    assert consensus_codec.decode(encoded) == message


ANNOUNCED = NewLeadershipTerm(3, 5, 4096, 8192, 7, 8192, 9000, 2, 1234, 1, 77, 1, False, 8192)
LED = ANNOUNCED._replace(log_lead=Lead(2, -99))


def test_who_led_an_earlier_term_stands_behind_the_announcement_of_a_leader() -> None:
    """Releases that do not know it, and Aeron's codecs, read the fields before it alone."""
    plain, told = consensus_codec.encode(ANNOUNCED), consensus_codec.encode(LED)
    assert told.startswith(plain) and told[len(plain) :].hex() == "10005600850301000300000000000000020000009dffffff"
    assert (consensus_codec.decode(plain), consensus_codec.decode(told)) == (ANNOUNCED, LED)
    assert codecs.NEW_LEADERSHIP_TERM.decode(told) == codecs.NEW_LEADERSHIP_TERM.decode(plain)


def test_what_else_stands_behind_an_announcement_is_nothing_or_an_error() -> None:
    plain, told = consensus_codec.encode(ANNOUNCED), consensus_codec.encode(LED)
    assert consensus_codec.decode(plain + consensus_codec.encode(TimeoutNow(5, 1024, 0, 2))) == ANNOUNCED
    nothing = consensus_codec.encode(LED._replace(log_leadership_term_id=-1))
    assert consensus_codec.decode(nothing) == ANNOUNCED._replace(log_leadership_term_id=-1)
    with pytest.raises(DecodeError):
        consensus_codec.decode(told[:-1])
    with pytest.raises(DecodeError, match="TermLead: of term 3, behind what is said of 4"):
        of_another = consensus_codec.encode(ANNOUNCED._replace(log_leadership_term_id=4))
        consensus_codec.decode(of_another + told[len(plain) :])


def test_the_two_schemas_do_not_take_each_others_messages() -> None:
    timeout_now = consensus_codec.encode(TimeoutNow(5, 1024, 0, 2))
    commit = codecs.COMMIT_POSITION.encode(leadership_term_id=1, log_position=2, leader_member_id=0)
    assert codecs.decode(timeout_now) is None
    assert ordo_codecs.decode(commit) is None
    assert ordo_codecs.decode(b"") is None
    unknown = timeout_now[:2] + b"\xff\xff" + timeout_now[4:]
    assert ordo_codecs.decode(unknown) is None and consensus_codec.decode(unknown) is None
    with pytest.raises(DecodeError):
        consensus_codec.decode(timeout_now[:-1])


def test_toggle_values_name_their_target() -> None:
    assert transfer_value(None) == ControlToggle.TRANSFER and transfer_target(transfer_value(None)) is None
    assert [transfer_target(transfer_value(member_id)) for member_id in range(7)] == list(range(7))
    assert all(is_transfer(transfer_value(member_id)) for member_id in (None, 0, 6))
    assert not any(is_transfer(value) for value in ControlToggle if value is not ControlToggle.TRANSFER)


MESSAGES_OF_QUERIES = {
    "Query": (10, ordo_codecs.QUERY, (5, 77, -1, 1, b"AAPL")),
    "QueryResponse": (11, ordo_codecs.QUERY_RESPONSE, (5, 77, 4096, 2, 0, b"300.10")),
    "ReadHeartbeat": (12, ordo_codecs.READ_HEARTBEAT, (3, 9, 0)),
    "ReadHeartbeatAck": (13, ordo_codecs.READ_HEARTBEAT_ACK, (3, 9, 1)),
    "ReadIndexRequest": (14, ordo_codecs.READ_INDEX_REQUEST, (3, 11, 1)),
    "ReadIndexResponse": (15, ordo_codecs.READ_INDEX_RESPONSE, (11, 4096, 0)),
    "ServiceQuery": (16, ordo_codecs.SERVICE_QUERY, (5, 77, 4096, 0, b"AAPL")),
}


@pytest.mark.parametrize("name", MESSAGES_OF_QUERIES)
def test_messages_of_queries_read_back_and_bear_no_cut(name: str) -> None:
    template_id, table, row = MESSAGES_OF_QUERIES[name]
    encoded = table.encode(**table.value_type(*row)._asdict())
    assert (table.template_id, encoded[4:6]) == (template_id, b"\x85\x03")
    assert ordo_codecs.decode(encoded) == (table, row)
    assert codecs.decode(encoded) is None, "whoever knows Aeron's schema only ignores it"
    for length in range(8, len(encoded)):
        with pytest.raises(DecodeError):
            ordo_codecs.decode(encoded[:length])


def test_a_payload_longer_than_its_message_is_refused() -> None:
    encoded = bytearray(ordo_codecs.QUERY.encode(cluster_session_id=1, correlation_id=2, consistency=0, payload=b"x"))
    encoded[-5:-1] = b"\xff\xff\xff\x7f"
    with pytest.raises(DecodeError, match="payload is cut"):
        ordo_codecs.decode(encoded)


@pytest.mark.parametrize("number", [2**62 + 1, 2**63 - 1])
def test_a_term_or_position_near_the_end_of_its_type_is_no_message(number: int) -> None:
    """One election more would be a negative term."""
    for message in (RequestVote(3, 4096, number, 2), RequestVote(3, number, 7, 2), TimeoutNow(number, 0, 1, 2)):
        with pytest.raises(DecodeError, match=f"={number} is out of range"):
            consensus_codec.decode(consensus_codec.encode(message))
