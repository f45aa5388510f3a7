"""Messages as JSON by the schemas of the log: each value without a loss, and why there is none."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ordo.errors import ArchiveError, OrdoError
from ordo.follow.entries import EntryKind, LogEntry
from ordo.follow.log_schemas import LogSchemas
from ordo.follow.topics.feeds import FeedMessage
from ordo.gateway.console.messages import by_schemas, load_decoder
from ordo.gateway.watching import log_messages, watched_items
from ordo.gateway.watching.log_messages import Headers, Lack, LogMessages, as_json, describe
from ordo.gateway.watching.watched_items import LogItems, TopicItems
from ordo.messages import encode
from ordo.service_api.messages.logged import LoggedSchema, pack_schema
from tests.service_api.messages.typed import (
    FIRST,
    ORDER,
    OTHER,
    SECOND,
    Order7,
    Ping,
    Position,
    PositionWithCents,
    Transfer,
)


def known() -> LogSchemas:
    return LogSchemas([LoggedSchema(96, 0, *pack_schema(FIRST))])


def test_each_value_is_json_without_a_loss() -> None:
    found = json.loads(json.dumps(describe(known(), encode(ORDER), 200)))
    assert found == {
        "message": {
            "name": "Order", "version": 0,
            "values": {
                "id": str(2**64 - 2), "side": "SELL", "flags": ["HIDDEN", "PEGGED"], "price": "-12.50",
                "is_open": True, "venue": {"code": "XETR", "desk": 7}, "digest": "Af8=", "sizes": [3, 4], "limit": None,
                "legs": [
                    {"account": 1, "share": "0.125", "note": "half"}, {"account": 2, "share": "1.000", "note": ""}
                ],
                "text": "größer",
            },
        }
    }  # fmt: skip


@pytest.mark.parametrize(
    ("value", "text"),
    [(math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity"), (1 << 53, "9007199254740992")],
)
def test_what_json_or_a_browser_has_no_number_for_is_text(value: float, text: str) -> None:
    assert as_json([value]) == [text]
    assert as_json((1 << 53) - 1) == (1 << 53) - 1 and as_json(True) is True and as_json(0.5) == 0.5


@pytest.mark.parametrize(
    ("payload", "position", "problem"),
    [
        (b"text", 200, "4 bytes are no message"),
        (encode(Position(1)), 96, "which code wrote what is in front of it is not known"),
        (encode(ORDER)[:-1], 200, "text of 8 bytes reaches beyond the message"),
    ],
)
def test_why_a_payload_is_no_message(payload: bytes, position: int, problem: str) -> None:
    assert problem in str(describe(known(), payload, position)["problem"])
    assert problem in by_schemas(known(), payload, position)["problem"]


def test_the_console_shows_json() -> None:
    shown = by_schemas(known(), encode(Position(7)), 200)["decoded"]
    assert json.loads(shown) == {"name": "Position", "version": 0, "values": {"account": 7}}
    assert load_decoder("log") is None, "it is no module"


class MemoryLog:
    """Gives entries, whose kinds may be anything."""

    position = 0

    def __init__(self, *entries: LogEntry) -> None:
        self._entries = entries

    def poll(self, handler: Any, limit: int) -> int:
        for one in self._entries:
            handler(one)
        return len(self._entries)

    def keep_alive(self) -> None: ...

    def close(self) -> None: ...


def entry(sequence: int, message: object) -> LogEntry:
    payload = message if isinstance(message, bytes) else encode(message)
    return LogEntry(100 * sequence, EntryKind.MESSAGE, 7, 1, 5, payload, sequence=sequence)


def schema_entry(position: int) -> LogEntry:
    digest, packed = pack_schema(FIRST)
    values = SimpleNamespace(service_id=0, member_id=0, digest=digest, packed=packed)
    return cast(LogEntry, SimpleNamespace(position=position, kind=EntryKind.SCHEMA, sequence=0, values=values))


def test_a_watch_of_the_log_takes_up_schemas_as_they_come() -> None:
    log = MemoryLog(
        entry(1, Position(1)), schema_entry(150), entry(2, Position(2)), entry(3, b"\xff"), entry(4, Ping())
    )
    polled = LogItems(log, 1, LogSchemas()).poll()
    first, second, third, fourth = (json.loads(one.text) for one in polled.items)
    assert first["problem"] == "schema 1 is not in the log, which has none"
    assert first["encoding"] == "utf-8" and first["payload"].encode() == encode(Position(1))
    assert second["message"] == {"name": "Position", "version": 0, "values": {"account": 2}}
    assert "payload" not in second and (second["sequence"], second["kind"]) == (2, "message")
    assert (third["encoding"], third["payload"]) == ("base64", "/w==") and "problem" in third
    assert fourth["message"]["values"] == {}


class MemoryTopic:
    """Gives one batch of messages after another, and fails after the last if it is told to."""

    is_reading, next_sequence = True, 1

    def __init__(self, *batches: Sequence[object], error: OrdoError | None = None) -> None:
        self._batches = list(batches)
        self._error = error
        self._sequence = 0

    def poll(self, handler: Any, limit: int) -> int:
        batch = self._batches.pop(0) if self._batches else []
        for one in batch:
            self._sequence += 1
            payload = one if isinstance(one, bytes) else encode(one)
            handler(FeedMessage("trades", self._sequence, 100 * self._sequence, 0, 7, payload))
        if self._error is not None and not self._batches:
            raise self._error
        return len(batch)

    def keep_alive(self) -> None: ...

    def close(self) -> None: ...


class Log:
    """What is found in it, up to which positions it was asked for."""

    def __init__(self, *found: LogSchemas) -> None:
        self._found = list(found)
        self.asked: list[int] = []

    async def find(self, upto: int) -> LogSchemas:
        self.asked.append(upto)
        return self._found.pop(0) if len(self._found) > 1 else self._found[0]


def shown(items: TopicItems) -> list[dict[str, Any]]:
    return [json.loads(one.text) for one in items.poll().items]


def grown() -> LogSchemas:
    found = known()
    found.add(LoggedSchema(150, 0, *pack_schema(SECOND)))
    return found


def test_a_watch_of_a_topic_looks_for_the_schema_of_a_newer_version_before_it_shows_it() -> None:
    log = Log(grown())
    items = TopicItems(
        MemoryTopic([], [Ping(), Position(1)], [PositionWithCents(2, 20)], [Position(3)]), known(), log.find
    )
    asyncio.run(items.catch_up())
    assert shown(items) == [] and [one["sequence"] for one in shown(items)] == [1, 2] and log.asked == []
    assert shown(items) == [], "it waits for a look"
    asyncio.run(items.catch_up())
    newer, older = shown(items)
    assert log.asked == [300]
    assert newer["message"] == {"name": "PositionWithCents", "version": 1, "values": {"account": 2, "cents": 20}}
    assert older["message"]["values"] == {"account": 3, "cents": None}


@pytest.mark.parametrize("message", [b"plain text", Order7("x"), PositionWithCents(1, 2)])
def test_a_watch_of_a_topic_looks_once_and_then_shows_what_there_is(message: object) -> None:
    log = Log(known())
    items = TopicItems(MemoryTopic([message], [], [message]), known(), log.find)
    assert shown(items) == []
    asyncio.run(items.catch_up())
    (first,) = shown(items)
    (second,) = shown(items)
    asyncio.run(items.catch_up())
    assert log.asked == [100] and (first["sequence"], second["sequence"]) == (1, 2), "not again so soon"


def test_looks_that_find_nothing_become_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each watch of a topic with messages of code whose schema the log does not have would ask a node once a second."""
    now_s = [1000.0]
    monkeypatch.setattr(watched_items, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    log = Log(known())
    items = TopicItems(MemoryTopic(*([PositionWithCents(1, 2)] for _ in range(600))), known(), log.find)
    for _ in range(300):
        items.poll()
        asyncio.run(items.catch_up())
        now_s[0] += 1
    assert 8 <= len(log.asked) <= 12, "after 1, 2, 4 to 32 s, and then every minute"


def test_what_waits_for_a_look_is_shown_before_a_failure() -> None:
    failure = ArchiveError("gone", code=2)
    items = TopicItems(MemoryTopic([Order7("x")], [Ping()], error=failure), known(), Log(known()).find)
    assert shown(items) == [] and [one["sequence"] for one in shown(items)] == [1, 2]
    with pytest.raises(ArchiveError, match="gone"):
        items.poll()


def test_a_look_that_fails_shows_what_is_known() -> None:
    async def find(upto: int) -> LogSchemas:
        raise ArchiveError("no node answers", code=2)

    items = TopicItems(MemoryTopic([Order7("x")]), known(), find)
    assert shown(items) == []
    asyncio.run(items.catch_up())
    assert "schema 7 is not in the log" in shown(items)[0]["problem"]


def test_headers_say_what_schemas_lack() -> None:
    headers = Headers(known())
    assert headers.lack(encode(ORDER)) is headers.lack(b"short") is Lack.NOTHING
    assert headers.lack(encode(PositionWithCents(1, 2))) is Lack.VERSION, "of a newer version"
    assert headers.lack(bytes([0, 0, 99, 0, 1, 0, 0, 0])) is Lack.VERSION, "a message that was added"
    assert headers.lack(encode(Order7("x"))) is headers.lack(b"plain text") is Lack.SCHEMA


def test_schemas_are_looked_for_up_to_a_position(archives: Archives) -> None:
    messages = LogMessages(["host:1"])
    messages.look(b"token")
    messages.look(b"token", 0)
    assert len(archives.asked) == 1
    messages.look(b"token", 1)
    assert archives.asked[1:] == [(b"token", True)], "what is known ends in front of that"


def test_without_decoding_a_message_is_its_payload() -> None:
    (item,) = LogItems(MemoryLog(entry(1, b"plain")), 1).poll().items
    assert json.loads(item.text)["payload"] == "plain" and "problem" not in item.text


class Archives:
    """What `schemas_of` gives, and how it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[bytes, bool]] = []
        self.fails = False

    def find(self, addresses: Any, *, credentials: bytes, known: LogSchemas | None = None) -> LogSchemas:
        self.asked.append((credentials, known is not None))
        if self.fails and known is not None:
            raise ArchiveError("the log was cut there", code=2)
        return LogSchemas([LoggedSchema(96, 0, *pack_schema(FIRST))])


@pytest.fixture
def archives(monkeypatch: pytest.MonkeyPatch) -> Archives:
    found = Archives()
    monkeypatch.setattr(log_messages, "schemas_of", found.find)
    return found


def test_each_caller_s_schemas_are_looked_for_once_in_a_while(
    archives: Archives, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = LogMessages(["host:1"])
    first = messages.look(b"token")
    first.add(LoggedSchema(200, 1, *pack_schema(OTHER)))
    assert len(messages.look(b"token")) == 1, "what a caller adds is its own"
    assert archives.asked == [(b"token", False)]
    asyncio.run(messages.find(b"another"))
    monkeypatch.setattr(log_messages, "LOOK_INTERVAL_S", -1)
    messages.look(b"token")
    assert archives.asked[1:] == [(b"another", False), (b"token", True)], "it goes on behind what is known"
    archives.fails = True
    assert len(messages.look(b"token")) == 1
    assert archives.asked[-2:] == [(b"token", True), (b"token", False)], "the log was cut: from the beginning"


def test_no_more_callers_are_kept_than_have_room(archives: Archives) -> None:
    messages = LogMessages(["host:1"])
    for number in range(log_messages.KNOWN_MAX + 1):
        messages.look(b"%d" % number)
    messages.look(b"0")
    assert archives.asked[-1] == (b"0", False)


def test_services_that_read_a_message_differently_give_none() -> None:
    schemas = known()
    schemas.add(LoggedSchema(120, 1, *pack_schema(OTHER)))
    assert "services 0 and 1 read it differently" in str(describe(schemas, encode(Transfer(3)), 200)["problem"])
