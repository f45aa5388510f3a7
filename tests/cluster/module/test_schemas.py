"""The schemas that the log has: what a leader writes, what a member tells of its own code, what snapshots keep."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ordo.cluster.module.log.log_executor import LogRecord
from ordo.cluster.module.state import module_snapshot
from ordo.cluster.module.state.module_snapshot import ModuleSnapshot, SnapshotPoint
from ordo.cluster.module.versions.schemas import SCHEMAS_MAX, Schemas
from ordo.cluster.module.versions.version_log import VersionChange, VersionLog
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.levels import SCHEMA_LEVEL
from ordo.errors import ClusterError, DecodeError
from ordo.messages import Schema, UInt32, UInt64, field, message
from ordo.service_api.messages.logged import LoggedSchema, PackedSchema, pack_schema


@message(id=1)
class Order:
    account: UInt32


@message(id=1, version=1)
class LaterOrder:
    account: UInt32
    price: UInt64 | None = field(since=1, default=None)


@message(id=1, version=1)
class RivalOrder:
    account: UInt32
    quantity: UInt64 | None = field(since=1, default=None)


@message(id=1, version=2)
class LaterRivalOrder:
    account: UInt32
    quantity: UInt64 | None = field(since=1, default=None)
    limit: UInt64 | None = field(since=2, default=None)


@message(id=1)
class RenamedOrder:
    account: UInt32


@message(id=2)
class Ack:
    number: UInt64


@message(id=1)
class OtherOrder:
    account: UInt64


@message(id=1, schema_id=2)
class OrderOfAnotherSchema:
    account: UInt64


FIRST, LATER, OTHER, SECOND = (Schema("orders", one) for one in (Order, LaterOrder, OtherOrder, OrderOfAnotherSchema))
RIVAL, RENAMED, WITH_ACK = Schema("orders", RivalOrder), Schema("orders", RenamedOrder), Schema("orders", Order, Ack)
LATER_RIVAL = Schema("orders", LaterRivalOrder)


class Member:
    """One whose log is what it has appended itself, and whose services have executed all of it."""

    def __init__(self, *schemas: Schema, level: int = SCHEMA_LEVEL, services: int = 1) -> None:
        """`schemas`: of its code, by version from 1 on."""
        self.is_leader, self.leadership_term_id, self.cluster_time = True, 3, 1000
        self.append_position, self.newest, self.takes = 96, level, True
        self.appended: list[Any] = []
        self.is_durable = True
        """What is appended is durable at once, and not only with `catch_up`."""
        self.errors: list[str] = []
        self.announced: list[str] = []
        self.skipped: set[int] = set()
        self.versions = VersionLog(services, self.skipped)
        self.executed = [SimpleNamespace(value=96) for _ in range(services)]
        self.go_over(1)
        me = cast(Any, self)
        self.schemas = Schemas(me, me, me, self.versions, 0, self.executed)
        self.tell(*schemas)

    def go_over(self, app_version: int) -> int:
        """Put a version into force with a record at the end of the log."""
        self.versions.changes.append(VersionChange(self.append_position, app_version))
        return self.append_position

    def extend(self) -> None:
        """Let the log grow by a record that services have executed."""
        self.append_position += 96
        for one in self.executed:
            one.value = self.append_position

    def tell(self, *schemas: Schema, service_id: int = 0) -> None:
        for part, schema in enumerate(schemas):
            packed = pack_schema(schema)
            record = ordo_codecs.SERVICE_SCHEMA.encode(
                service_id=service_id, app_version=part + 1, part=part, parts=len(schemas), **packed._asdict()
            )
            self.schemas.on_service_schema(service_id, ordo_codecs.SERVICE_SCHEMA.decode(record))

    def append(self, record: bytes) -> bool:
        if self.takes:
            self.appended.append(ordo_codecs.SCHEMA_EVENT.decode(record))
            if self.is_durable:
                self.catch_up()
        return self.takes

    def catch_up(self) -> None:
        self.extend()
        self.schemas.on_record(LogRecord(self.append_position, ordo_codecs.SCHEMA_EVENT, self.appended[-1]))

    def record_error(self, text: str) -> None:
        self.errors.append(text)

    def announce(self, event: str, text: str) -> None:
        self.announced.append(f"{event} {text}")

    def log(self, schema: Schema, service_id: int = 0) -> LoggedSchema:
        """A schema that another leader wrote."""
        self.extend()
        logged = LoggedSchema(self.append_position, service_id, *pack_schema(schema))
        self.schemas.on_record(LogRecord(logged.position, ordo_codecs.SCHEMA_EVENT, logged))
        return logged


def digests(member: Member) -> list[bytes]:
    return [one.digest for one in member.appended]


def test_a_leader_writes_its_schema_once() -> None:
    member = Member(FIRST)
    for _ in range(3):
        member.schemas.work()
    assert digests(member) == [pack_schema(FIRST).digest]
    event = member.appended[0]
    assert (event.leadership_term_id, event.timestamp, event.service_id, event.member_id) == (3, 1000, 0, 0)
    member.schemas.execute(LogRecord(192, ordo_codecs.SCHEMA_EVENT, event))
    assert member.announced == ["cluster.schema schema 1 (orders) of service 0 is in version 0 from 192 on"]


def test_it_waits_for_leadership_level_and_room() -> None:
    member = Member(FIRST, level=SCHEMA_LEVEL - 1)
    member.schemas.work()
    member.newest, member.is_leader = SCHEMA_LEVEL, False
    member.schemas.work()
    member.is_leader, member.takes = True, False
    member.schemas.work()
    assert member.appended == []
    member.takes = True
    member.schemas.work()
    assert len(member.appended) == 1


def test_what_another_leader_wrote_is_not_written_again_unless_it_was_cut_off() -> None:
    member = Member(FIRST)
    written = member.log(FIRST)
    member.schemas.work()
    assert member.appended == []
    member.schemas.truncate(written.position - 1)
    member.schemas.work()
    assert len(member.appended) == 1


def test_a_newer_schema_supersedes_and_an_older_one_is_not_written() -> None:
    member = Member(FIRST, LATER)
    member.log(FIRST)
    member.log(LATER)
    member.schemas.work()
    assert member.appended == member.errors == [], "code that was not upgraded yet goes on"
    upgraded = Member(FIRST, LATER)
    upgraded.schemas.work()
    upgraded.go_over(2)
    upgraded.schemas.work()
    assert digests(upgraded) == [pack_schema(one).digest for one in (FIRST, LATER)]


def test_one_that_contradicts_the_log_is_told_of_once_and_never_written() -> None:
    member = Member()
    member.log(FIRST)
    member.tell(OTHER)
    for _ in range(3):
        member.schemas.work()
    assert member.appended == []
    (said,) = member.errors
    assert said.startswith("service 0, version 1: OtherOrder.account is 8 bytes at 0"), said
    assert "it was 4 bytes at 0" in said and "\n" not in said
    assert member.announced == [f"cluster.schema_conflict {said}"]


def test_one_of_another_leader_that_contradicts_the_own_code_is_told_of_and_ends_nothing() -> None:
    """A minority with other code may lead for a while: the others tell of it, and go on."""
    member = Member(RIVAL)
    member.is_leader = False
    member.log(FIRST)
    member.schemas.work()
    assert member.errors == []
    member.log(LATER)
    member.schemas.work()
    member.schemas.work()
    (said,) = member.errors
    assert "RivalOrder.price is missing" in said
    member.is_leader = True
    member.schemas.work()
    assert member.appended == [] and len(member.errors) == 1


def test_what_is_not_executed_yet_is_not_judged() -> None:
    """The end of a log may be cut off, as that of a leader that was deposed."""
    member = Member(OTHER)
    member.is_leader = False
    executed = member.executed[0].value
    written = member.log(FIRST)
    member.executed[0].value = executed
    member.schemas.work()
    assert member.errors == []
    member.executed[0].value = written.position
    member.schemas.work()
    assert len(member.errors) == 1


def test_code_that_lacks_what_the_log_has_is_told_of_once() -> None:
    member = Member(FIRST)
    member.log(WITH_ACK)
    member.schemas.work()
    member.schemas.work()
    (said,) = member.errors
    assert said.startswith("service 0, version 1: Ack: the message of id 2 is missing; schema 1 in force"), said
    assert "keep messages and fields for good" in said and member.appended == []


def test_another_name_is_no_other_schema() -> None:
    member = Member(RENAMED)
    member.log(FIRST)
    member.schemas.work()
    assert member.appended == member.errors == []


def test_the_schema_of_an_upgrade_waits_until_its_own_service_has_gone_over() -> None:
    member = Member(FIRST, LATER)
    member.schemas.work()
    member.append_position += 96
    position = member.go_over(2)
    member.schemas.work()
    assert digests(member) == [pack_schema(FIRST).digest], "it is not executed yet, and may be left out"
    member.skipped.add(position)
    member.extend()
    member.schemas.work()
    assert len(member.appended) == 1, "left out"
    member.skipped.clear()
    member.schemas.work()
    assert digests(member)[1:] == [pack_schema(LATER).digest]


def test_a_leader_remembers_what_it_appended_until_it_is_durable_or_the_term_ends() -> None:
    member = Member(FIRST, OTHER)
    member.is_durable = False
    member.schemas.work()
    member.schemas.work()
    assert len(member.appended) == 1, "its disk stalls"
    assert "OtherOrder.account" in member.schemas.find_conflict(0, 2)
    member.leadership_term_id += 1
    member.schemas.work()
    assert len(member.appended) == 2, "the end of the former term may be lost"
    member.catch_up()
    member.schemas.work()
    assert len(member.appended) == 2


def test_an_upgrade_is_judged_before_it_by_what_the_log_has_and_by_what_it_will_have() -> None:
    member = Member()
    member.log(FIRST)
    member.tell(FIRST, OTHER, LATER, RIVAL)
    assert "OtherOrder.account" in member.schemas.find_conflict(0, 2)
    assert member.schemas.find_conflict(0, 1) == member.schemas.find_conflict(0, 4) == ""
    member.append_position += 96
    member.go_over(3)
    assert "RivalOrder.price" in member.schemas.find_conflict(0, 4), "that of version 3 is not written yet"
    assert member.schemas.find_conflict(0, 5) == ""


def test_an_upgrade_away_from_code_that_contradicts_the_log_is_possible() -> None:
    member = Member()
    member.log(FIRST)
    member.tell(OTHER, LATER)
    assert member.schemas.find_conflict(0, 2) == ""


def test_an_upgrade_that_extends_code_which_contradicts_the_log_is_possible() -> None:
    """A member with other code led for a moment: its schema, which nobody has, is no bar for good."""
    member = Member(RIVAL, LATER_RIVAL, OTHER)
    member.log(FIRST)
    member.log(LATER)
    assert member.schemas.find_conflict(0, 2) == ""
    assert "LaterOrder.account" in member.schemas.find_conflict(0, 3), "it goes with neither"
    member.go_over(2)
    assert member.schemas.find_conflict(0, 1) == "", "nor is the way back barred"
    older = Member(FIRST, LATER_RIVAL)
    older.log(LATER)
    assert "LaterRivalOrder.price" in older.schemas.find_conflict(0, 2), "the code in force contradicts nothing"


def test_schemas_of_other_ids_and_other_services_are_none_of_its() -> None:
    member = Member(SECOND)
    member.log(FIRST)
    member.log(OTHER, service_id=1)
    member.schemas.work()
    assert digests(member) == [pack_schema(SECOND).digest]
    assert member.schemas.find_conflict(0, 1) == "" and member.errors == []


def test_a_damaged_schema_of_the_log_keeps_nobody_from_going_on() -> None:
    member = Member()
    damaged = LoggedSchema(192, 0, b"\5" * 32, b"damaged")
    member.extend()
    member.schemas.on_record(LogRecord(192, ordo_codecs.SCHEMA_EVENT, damaged))
    member.tell(FIRST)
    member.schemas.work()
    member.schemas.work()
    member.schemas.execute(LogRecord(192, ordo_codecs.SCHEMA_EVENT, damaged))
    assert len(member.appended) == 1
    assert len(member.errors) == 1 and "the log at position 192: schema 0505" in member.errors[0]


def test_a_damaged_schema_of_a_container_is_told_of_and_left_out() -> None:
    member = Member()
    values = SimpleNamespace(part=0, parts=1, app_version=1, digest=b"\6" * 32, packed=b"damaged")
    member.schemas.on_service_schema(0, cast(Any, values))
    member.schemas.work()
    assert member.appended == [] and "service 0, version 1: schema 0606" in member.errors[0]


def test_a_log_takes_no_more_than_snapshots_can_have() -> None:
    member = Member(FIRST)
    for number in range(SCHEMAS_MAX):
        logged = LoggedSchema(96, 0, number.to_bytes(32, "little"), b"")
        member.schemas.on_record(LogRecord(96, ordo_codecs.SCHEMA_EVENT, logged))
    member.schemas.work()
    assert member.appended == [] and member.errors[-1] == "the log has 1000 schemas of service 0, and takes no more"


@pytest.mark.parametrize(("part", "parts"), [(1, 1), (-1, 1), (0, 0)])
def test_parts_that_cannot_be_are_refused(part: int, parts: int) -> None:
    values = SimpleNamespace(part=part, parts=parts, app_version=1, digest=b"", packed=b"")
    with pytest.raises(DecodeError, match=f"part {part} of {parts}"):
        Member().schemas.on_service_schema(0, cast(Any, values))


def test_a_snapshot_has_those_below_it_and_a_start_joins_them_with_the_log() -> None:
    member = Member()
    first, later = member.log(FIRST), member.log(LATER)
    below = member.schemas.at(first.position)
    assert below == [first] and member.schemas.at(later.position) == [first, later]
    written = module_snapshot.encode(ModuleSnapshot(SnapshotPoint(first.position, 3, 1), schemas=below))
    read = module_snapshot.decode(list(written)).schemas
    for has_both in (True, False):
        other = Member()
        for one in (first, later) if has_both else (later,):
            other.schemas.on_record(LogRecord(one.position, ordo_codecs.SCHEMA_EVENT, one))
        other.schemas.start(read, first.position)
        assert other.schemas.at(later.position) == [first, later], "each once, whether the log still has it or not"


def test_a_snapshot_with_a_schema_of_no_service_is_refused() -> None:
    wrong = ModuleSnapshot(SnapshotPoint(96, 3, 1), schemas=[LoggedSchema(96, 10, *PackedSchema(b"", b""))])
    with pytest.raises(ClusterError, match="a schema of service 10"):
        module_snapshot.decode(list(module_snapshot.encode(wrong)))
