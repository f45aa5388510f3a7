"""Readers of feeds, what they admit, and what they refuse: bytes from outside among it."""

from __future__ import annotations

from typing import Any

import pytest

from ordo.archive.client.settings import ArchiveClientSettings
from ordo.cluster.wire import ordo_codecs
from ordo.follow.topics.feeds import ROUNDS_MAX, FeedFollower, FeedMessage, FeedReader, decode_message
from ordo.runtime.errors import ArchiveError, ClusterError, ConfigurationError, DecodeError

ADDRESS = "127.0.0.1:9"


def record(sequence: int, position: int, previous: int, payload: bytes = b"p") -> bytes:
    return (
        ordo_codecs.FEED_MESSAGE.encode(
            sequence=sequence, log_position=position, previous_log_position=previous, timestamp=7, message_index=2
        )
        + payload
    )


class Follower(FeedFollower):
    """Its records come from a list."""

    def __init__(
        self, from_position: Any, from_sequence: int | None, records: list[bytes], addresses: tuple[str, ...] = ()
    ) -> None:
        nodes = [ArchiveClientSettings.at(address) for address in addresses]
        super().__init__(None, nodes, "trades", from_position, from_sequence, 1.0)  # type: ignore[arg-type]
        self._records = records

    def poll_records(self, handler: Any, limit: int) -> int:
        for position, one in enumerate(self._records):
            handler(position, one)
        return len(self._records)

    def all(self) -> list[int]:
        found: list[FeedMessage] = []
        self.poll_messages(found.append, 100)
        return [one.sequence for one in found]


THREE = [record(1, 96, 0), record(2, 96, 96), record(3, 160, 96)]


def test_a_message_has_what_was_published() -> None:
    assert decode_message("trades", record(3, 160, 96, b"payload")) == (
        FeedMessage("trades", 3, 160, 2, 7, b"payload"),
        96,
    )


@pytest.mark.parametrize("length_bytes", range(len(record(1, 96, 0, b""))))
def test_a_message_that_is_cut_is_refused(length_bytes: int) -> None:
    with pytest.raises(DecodeError):
        decode_message("trades", record(1, 96, 0, b"")[:length_bytes])


def test_another_message_is_refused() -> None:
    with pytest.raises(DecodeError, match="is no message of a feed"):
        decode_message("trades", ordo_codecs.IDENTITY.encode(principal=b"", **dict.fromkeys(IDENTITY_FIELDS, 0)))


IDENTITY_FIELDS = (
    "identity_high",
    "identity_low",
    "incarnation",
    "open_position",
    "number",
    "confirmed",
    "last_time",
)


@pytest.mark.parametrize(
    ("from_position", "from_sequence", "expected"),
    [(0, None, [1, 2, 3]), (96, None, [3]), ("oldest", None, [1, 2, 3]), ("live", 2, [2, 3]), ("live", 9, [])],
)
def test_a_reader_begins_where_it_is_told_to(
    from_position: Any, from_sequence: int | None, expected: list[int]
) -> None:
    assert Follower(from_position, from_sequence, THREE).all() == expected


def test_a_beginning_that_was_deleted_is_an_error() -> None:
    with pytest.raises(ArchiveError, match="messages behind position=64 of the log were deleted"):
        Follower(64, None, THREE[1:]).all()
    assert Follower(96, None, THREE[2:]).all() == [3]
    with pytest.raises(ArchiveError, match="sequence 3 came where 2 was expected: that was deleted"):
        Follower("live", 2, THREE[2:]).all()


@pytest.mark.parametrize(("from_position", "from_sequence"), [(64, None), ("live", 2)])
def test_nodes_that_have_not_answered_are_asked_again_before_anything_counts_as_deleted(
    from_position: Any, from_sequence: int | None
) -> None:
    follower = Follower(from_position, from_sequence, THREE[2:], (ADDRESS, "127.0.0.1:10"))
    for _ in range(ROUNDS_MAX - 1):
        follower.position = 64
        assert (follower.all(), follower.position) == ([], None)
    with pytest.raises(ArchiveError, match="deleted at all nodes that could be reached"):
        follower.all()


@pytest.mark.parametrize("wrong", [[THREE[0], THREE[2]], [THREE[0], THREE[1], THREE[0]]])
def test_a_gap_and_a_repeat_are_errors(wrong: list[bytes]) -> None:
    with pytest.raises(ClusterError, match="was expected: the feeds of the members differ"):
        Follower(0, None, wrong).all()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"topic": ".hidden"}, "topic '.hidden': must have"),
        ({"topic": "x" * 65}, "must have 1 to 64"),
        ({"topic": "t", "from_position": -1}, "from_position=-1: must be"),
        ({"topic": "t", "from_position": "now"}, "from_position='now': must be"),
        ({"topic": "t", "from_sequence": 0}, "numbered from 1 on"),
        ({"topic": "t", "from_sequence": 1, "from_position": 5}, "give one of both"),
    ],
)
def test_what_no_reader_can_be_is_said_at_once(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        FeedReader([ADDRESS], **arguments)
    with pytest.raises(ConfigurationError, match="addresses"):
        FeedReader([], "trades")
