"""What clients may name as the channel of their answers."""

from __future__ import annotations

import pytest

from ordo.cluster.module.sessions.response_channels import (
    bounded,
    check_stream,
    is_from_opener,
    opened_by,
    response_channel,
)
from ordo.runtime.errors import ChannelError

USUAL = "aeron:udp?endpoint=10.0.0.1:4000"


@pytest.mark.parametrize(
    "channel",
    [USUAL, f"{USUAL}|rejoin=false|term-length=64k|egress-policy=drop-oldest", f"{USUAL}|alias=desk|mtu=8192"],
)
def test_what_clients_ask_for_is_kept_as_it_is(channel: str) -> None:
    assert response_channel(channel) == channel


@pytest.mark.parametrize(
    ("more", "kept"),
    [
        ("session-id=7|init-term-id=1|term-id=1|term-offset=0", ""),
        ("linger=9999s|sparse=false|ssc=true|interface=10.0.0.2|tags=4,5|setup-limit=60000", ""),
        ("term-length=1g|so-sndbuf=1g", "|term-length=16777216|so-sndbuf=4194304"),
        (f"alias={'x' * 2000}", f"|alias={'x' * 64}"),
    ],
)
def test_ids_and_resources_of_the_member_are_not_the_clients_to_choose(more: str, kept: str) -> None:
    """`term-length=1g|sparse=false`, twice, took 5 GiB."""
    assert response_channel(f"{USUAL}|{more}") == f"{USUAL}{kept}"


@pytest.mark.parametrize(
    "channel",
    [
        "aeron:ipc",
        "aeron:ipc?endpoint=10.0.0.1:4000",
        f"aeron-spy:{USUAL}",
        "aeron:udp",
        "aeron:udp?endpoint=10.0.0.1:0",
        "aeron:udp?endpoint=224.0.1.1:4000",
        "aeron:udp?control=10.0.0.1:4000|control-mode=dynamic",
        f"{USUAL}|control=10.0.0.1:4001|control-mode=manual",
        f"{USUAL}|control-mode=response",
        "udp://10.0.0.1",
        "",
    ],
)
def test_other_channels_are_refused(channel: str) -> None:
    with pytest.raises(ChannelError):
        response_channel(channel)


@pytest.mark.parametrize(
    ("channel", "kept"),
    [
        ("aeron:ipc", "aeron:ipc"),
        ("aeron:ipc?term-length=1g|session-id=7|so-sndbuf=1g|endpoint=10.0.0.1:1", "aeron:ipc?term-length=16777216"),
        (USUAL, USUAL),
    ],
)
def test_who_comes_by_shared_memory_may_be_answered_there(channel: str, kept: str) -> None:
    assert response_channel(channel, is_local=True) == kept
    assert bounded("aeron:ipc", 100) == "aeron:ipc"


def test_streams_of_the_cluster_itself_are_not_for_answers() -> None:
    """Over shared memory; a UDP port of its own tells them apart."""
    for cluster_id in (0, 3):
        refused = []
        for stream_id in range(90, 1000):
            try:
                check_stream("aeron:ipc", stream_id, cluster_id)
            except ChannelError:
                refused.append(stream_id)
        plain = [one + 16 * cluster_id for one in (100, 101, *range(103, 113))]
        of_services = [one + 16 * (9 * cluster_id + other) for other in range(9) for one in (113, 114, 115)]
        assert refused == sorted(plain + of_services)
    check_stream(USUAL, 105, 0)
    with pytest.raises(ChannelError):
        response_channel("aeron-spy:aeron:ipc", is_local=True)


@pytest.mark.parametrize(("length", "setups"), [(0, 1), (60, 2), (99, 4), (1000, 26)])
def test_set_ups_weigh_no_more_than_the_request_with_its_frame(length: int, setups: int) -> None:
    assert bounded(USUAL, length) == f"{USUAL}|setup-limit={setups}"
    assert setups == 1 or setups * 40 <= -(-(length + 32) // 32) * 32


@pytest.mark.parametrize(
    ("channel", "source", "kept"),
    [
        (USUAL, "10.0.0.1:999", USUAL),
        ("aeron:udp?endpoint=[::1]:4000", "[::1]:999", "aeron:udp?endpoint=[::1]:4000"),
        ("aeron:ipc", "aeron:ipc", "aeron:ipc"),
        (USUAL, "10.0.0.9:999", f"{USUAL}|opened-by=10.0.0.9#"),
        (USUAL, "aeron:ipc", f"{USUAL}|opened-by=ipc#"),
        (USUAL, "10.0.0.1:999#desk-7", f"{USUAL}|opened-by=10.0.0.1#desk-7"),
        (USUAL, "10.0.0.1:999#a|b\u00fc", f"{USUAL}|opened-by=10.0.0.1#a%7Cb%C3%BC"),
    ],
)
def test_who_opened_a_session_is_kept_where_its_endpoint_does_not_say_it(channel: str, source: str, kept: str) -> None:
    assert opened_by(channel, source) == kept
    assert is_from_opener(kept, source)
    assert response_channel(kept, is_local=True) == channel, "it is not the client's to choose"
    for stranger in (
        "10.0.0.2:999",
        "[::2]:999",
        "10.0.0.2:999#desk-7",
        f"{source}#other" if "#" not in source else "",
    ):
        assert not is_from_opener(kept, stranger)


def test_a_session_may_go_on_from_the_host_that_it_is_answered_at() -> None:
    """Another interface of the client's machine, perhaps; whoever listens there was sent all that the session was."""
    assert is_from_opener(opened_by(USUAL, "10.0.0.9:1"), "10.0.0.1:2")
    assert is_from_opener(opened_by(USUAL, "10.0.0.9:1"), "10.0.0.9:2")
    keyed = opened_by(USUAL, "10.0.0.9:1#desk-7")
    assert not is_from_opener(keyed, "10.0.0.1:2") and is_from_opener(keyed, "10.0.0.1:2#desk-7")


def test_a_channel_that_is_too_long_for_its_opener_is_refused() -> None:
    long = f"{USUAL}|mtu={'0' * 4000}8192"
    assert response_channel(long) == long
    with pytest.raises(ChannelError):
        opened_by(long, f"10.0.0.9:1#{'x' * 200}")
    assert not is_from_opener("nonsense", "10.0.0.1:4000")
