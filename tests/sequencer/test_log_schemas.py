"""What `ordo log --decode` prints: messages as the schemas say that the log has, wherever these come in it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

import ordo
from ordo.cluster.wire import ordo_codecs
from ordo.errors import MessageError
from ordo.follow import log_commands
from ordo.follow.entries import EntryKind, LogEntry
from ordo.follow.entry_values import EntryValues
from ordo.follow.log_commands import describe_entry, log
from ordo.follow.log_schemas import LogSchemas
from ordo.messages import Schema, UInt32, encode, message
from ordo.service_api.messages.logged import LoggedSchema, pack_schema


@message(id=1)
class Order:
    account: UInt32


@message(id=1)
class Transfer:
    cents: UInt32


@message(id=1, schema_id=2)
class Query:
    account: UInt32


def known(*classes: type) -> LogSchemas:
    """Schemas of services, from service 0 on."""
    schemas = LogSchemas()
    for service_id, one in enumerate(classes):
        schemas.add(LoggedSchema(96 * service_id, service_id, *pack_schema(Schema("some", one))))
    return schemas


def request(message: object) -> LogEntry:
    values = ordo_codecs.REQUEST.decode(ordo_codecs.REQUEST.encode(number=1))
    return LogEntry(960, EntryKind.REQUEST, 7, 0, 5, encode(message), cast(EntryValues, values))


@pytest.mark.parametrize(
    ("classes", "said"),
    [
        ((Order,), "Order(account=3)"),
        ((Order, Order), "Order(account=3)"),
        ((Query, Order), "Order(account=3)"),
        ((Transfer,), "Transfer(cents=3)"),  # other code led for a moment: MESSAGES.md warns of it
        ((Order, Transfer), "service_id=0 Order(account=3) or service_id=1 Transfer(cents=3)"),
    ],
)
def test_messages_are_printed_as_each_service_reads_them(classes: tuple[type, ...], said: str) -> None:
    line = describe_entry(request(Order(3)), known(*classes))
    assert line == f"960 request time=7 term=0 number=1 session=5 length=12 {said}"


def test_what_is_no_message_of_them_is_printed_as_bytes() -> None:
    entry = request(Order(3))
    assert describe_entry(entry, known(Query)) == describe_entry(entry)


class Reader:
    """Gives a schema, and a message behind it, as far as it is asked for their kinds."""

    source = problem = None

    def __init__(self, addresses: Any, *, kinds: Any, **options: Any) -> None:
        self._kinds = kinds

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def entries(self, **options: Any) -> Any:
        digest, packed = pack_schema(Schema("some", Order))
        values = SimpleNamespace(service_id=0, member_id=0, digest=digest, packed=packed)
        event = LogEntry(900, EntryKind.SCHEMA, 7, 0, -1, b"", cast(EntryValues, values))
        return [one for one in (event, request(Order(3))) if self._kinds is None or one.kind in self._kinds]


@pytest.mark.parametrize("kinds", [None, ["request"], ["request", "schema"]])
def test_schemas_that_come_later_are_read_also_where_they_are_not_printed(
    kinds: list[str] | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(log_commands, "LogReader", Reader)
    monkeypatch.setattr(log_commands, "schemas_of", lambda addresses, **options: LogSchemas())
    log(["host:1"], kind=kinds, decode=True)
    printed = capsys.readouterr().out.splitlines()
    assert printed[-1].endswith("Order(account=3)")
    assert [line.split()[1] for line in printed[:-1]] == ([] if kinds == ["request"] else ["schema"])


def schema_entry(position: int, one: type) -> LogEntry:
    digest, packed = pack_schema(Schema("some", one))
    values = SimpleNamespace(service_id=0, member_id=0, digest=digest, packed=packed)
    return LogEntry(position, EntryKind.SCHEMA, 7, 0, -1, b"", cast(EntryValues, values))


def test_a_program_reads_what_the_log_vouches_for() -> None:
    """It keeps up with a reader: each entry is noted, and the others are no schemas."""
    schemas = ordo.LogSchemas()
    for entry in (request(Order(3)), schema_entry(900, Order)):
        schemas.note(entry)
    found = schemas.read(encode(Order(3)), 960)
    assert repr(found) == "Order(account=3)" and not isinstance(found, Order), "its class is made of the schema"
    for payload, position, why in (
        (encode(Order(3)), 900, "schema 1 is in the log from position 900 on"),
        (encode(Query(3)), 960, "schema 2 is not in the log, which has 1"),
        (encode(Order(3))[:-1], 960, "Order"),
    ):
        with pytest.raises(MessageError, match=why):
            schemas.read(payload, position)


def test_a_copy_is_added_to_by_itself() -> None:
    first = known(Order)
    first.searched_to = 500
    copy = first.copy()
    copy.note(schema_entry(960, Query))
    assert (len(first), len(copy), copy.searched_to) == (1, 2, 500)
