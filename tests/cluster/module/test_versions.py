"""Which version of each service is in force, how a leader upgrades all of them or one, and who stands still."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ordo.cluster.module.log.log_executor import LogRecord
from ordo.cluster.module.snapshots.snapshot_reports import HeldSnapshot
from ordo.cluster.module.snapshots.snapshot_schedule import AGAIN_NS
from ordo.cluster.module.state.host import Orders, Replication
from ordo.cluster.module.state.settings import ModuleSettings
from ordo.cluster.module.versions.version_lacks import Lack, VersionLacks
from ordo.cluster.module.versions.version_log import VersionLog
from ordo.cluster.module.versions.versions import Versions
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.app_version import ALL_SERVICES, NO_VERSION
from ordo.cluster.wire.levels import SERVICE_VERSION_LEVEL
from ordo.cluster.wire.version_rows import (
    HANDS_OVER,
    HASHES,
    Code,
    InForce,
    decode_in_force,
    decode_services,
    encode_codes,
)
from ordo.runtime.errors import ClusterError
from ordo.runtime.sbe import Message
from tests.records import make_record

BEHIND = 10_000
OLD_EVENT = Message(
    "VersionEvent",
    110,
    901,
    1,
    fields=[("leadership_term_id", "i64"), ("timestamp", "i64"), ("app_version", "version_t"), ("member_id", "i32")],
)
"""As releases encode it in which one version is in force for all services."""


def first_term(app_version: int = 1) -> Any:
    fields = {"leadership_term_id": 0, "term_base_log_position": 0, "app_version": app_version}
    return decoded(codecs.NEW_LEADERSHIP_TERM_EVENT.encode(**fields))


def event(app_version: int, service_id: int = ALL_SERVICES) -> Any:
    fields = {"leadership_term_id": 0, "timestamp": 0, "app_version": app_version, "member_id": 0}
    return decoded(ordo_codecs.VERSION_EVENT.encode(**fields, service_id=service_id))


def decoded(record: bytes) -> Any:
    found = ordo_codecs.decode_any(record)
    assert found is not None
    return found


# -- the log -----------------------------------------------------------------------------------------------------------


def test_each_service_has_the_version_of_the_last_record_for_it_or_for_all() -> None:
    skipped: dict[int, None] = {}
    log = VersionLog(3, skipped)
    for position, record in ((96, first_term()), (200, event(2, 1)), (300, event(3)), (400, event(4, 2))):
        log.on_record(position, *record)
    assert log.at(95) == [NO_VERSION] * 3
    assert log.at(96) == [1, 1, 1]
    assert log.at(299) == [1, 2, 1]
    assert log.at(300) == [3, 3, 3]
    assert log.at(BEHIND) == [3, 3, 4]
    assert log.change_at(299, 1) == (200, 2, 1)
    skipped.update({300: None, 400: None})
    assert log.at(BEHIND) == [1, 2, 1], "what is left out changes nothing"


def test_a_log_that_is_cut_has_what_was_in_force_before() -> None:
    log = VersionLog(2, {})
    for position, record in ((96, first_term()), (200, event(2, 1)), (300, event(2, 0))):
        log.on_record(position, *record)
    log.truncate(200)
    assert log.at(BEHIND) == [1, 2]
    log.truncate(199)
    assert log.at(BEHIND) == [1, 1]


def test_behind_a_snapshot_each_service_has_the_version_of_its_part() -> None:
    log = VersionLog(2, {})
    log.start([3, 5])
    assert (log.at(500), log.change_at(500, 1)) == ([3, 5], (-1, 5, 1))
    log.on_record(600, *event(4, 0))
    assert log.at(600) == [4, 5]


def test_the_event_of_an_earlier_release_is_for_all_and_is_read_by_it() -> None:
    fields = {"leadership_term_id": 0, "timestamp": 0, "app_version": 2, "member_id": 0}
    log = VersionLog(2, {})
    log.on_record(96, *decoded(OLD_EVENT.encode(**fields)))
    assert log.at(96) == [2, 2]
    assert OLD_EVENT.decode(ordo_codecs.VERSION_EVENT.encode(**fields, service_id=ALL_SERVICES)).app_version == 2


# -- upgrades ----------------------------------------------------------------------------------------------------------


class Member:
    """The leader of three, of which the others have the code that `tell` says. `told`: what tools are answered."""

    def __init__(self, *codes: tuple[int, ...], level: int = SERVICE_VERSION_LEVEL, first_version: int = 1) -> None:
        """`codes`: the versions that the own services have."""
        self.is_leader, self.leadership_term_id, self.cluster_time = True, 3, 1000
        self.append_position = self.commit_position = 96
        self.records: list[Any] = []
        self.told: list[Any] = []
        self.announced: list[str] = []
        self.errors: list[str] = []
        self.snapshots_asked = 0
        self.now_ns = 0
        config = ModuleSettings(member_id=0, service_count=len(codes), first_version=first_version)
        configuration = SimpleNamespace(member_ids=(0, 1, 2), voter_ids=(0, 1, 2))
        self.positions = [SimpleNamespace(value=96) for _ in codes]
        self.newest_level = level
        core: Any = SimpleNamespace(configuration=configuration, leader_member_id=0, is_leading=True)
        self.versions = Versions(
            cast(Any, self),
            config,
            Replication(core, cast(Any, self), cast(Any, SimpleNamespace(send=lambda *_: None))),
            VersionLacks(cast(Any, self), core, cast(Any, self), cast(Any, None), len(codes)),
            cast(Any, SimpleNamespace(known={})),
            cast(Any, SimpleNamespace(service_positions=self.positions)),
            cast(Any, self),
            Orders(
                self._ask_snapshot,
                lambda: False,
                lambda order: True,
                lambda answer: self.told.append(decoded(answer)[1]),
            ),
        )
        self.versions.log.on_record(96, *first_term())
        for service_id, numbers in enumerate(codes):
            rows = encode_codes(Code(one, HANDS_OVER) for one in numbers)
            self.versions.on_service_versions(service_id, make_record(ordo_codecs.SERVICE_VERSIONS, versions=rows))

    own_level = SERVICE_VERSION_LEVEL

    @property
    def newest(self) -> int:
        return self.newest_level

    @property
    def takes_service_versions(self) -> bool:
        return self.newest_level >= SERVICE_VERSION_LEVEL

    def change_at(self, log_position: int) -> Any:
        return SimpleNamespace(position=-1, level=self.newest_level)

    def _ask_snapshot(self) -> bool:
        self.snapshots_asked += 1
        return True

    def announce(self, name: str, text: str) -> None:
        self.announced.append(text)

    def record_error(self, message: str) -> None:
        self.errors.append(message)

    def append(self, record: bytes) -> bool:
        self.append_position += 96
        self.records.append(decoded(record)[1])
        self.versions.log.on_record(self.append_position, *decoded(record))
        return True

    def ask(self, app_version: int, service_id: int = ALL_SERVICES) -> None:
        self.now_ns += 1
        fields = {"correlation_id": 1, "app_version": app_version, "service_id": service_id}
        request = make_record(ordo_codecs.UPGRADE_REQUEST, **fields)
        self.versions.on_upgrade_request(request, self.now_ns)

    def tell(self, member_id: int, *codes: tuple[int, ...]) -> None:
        """What another member says of its services, as one of this release does."""
        other = Member(*codes)
        other.versions.survey._own_id = member_id
        sent: list[bytes] = []
        cast(Any, other.versions.survey)._contacts = SimpleNamespace(send=lambda to, message: sent.append(message))
        question = SimpleNamespace(request_id=self.versions.survey._request_id, member_id=0)
        other.versions.handlers[ordo_codecs.VERSIONS_QUESTION](question, self.now_ns)
        self.versions.handlers[ordo_codecs.VERSIONS_REPORT](decoded(sent[0])[1], self.now_ns)

    def commit(self, *executed_by: int) -> None:
        """The last record is committed, and these services execute it."""
        self.commit_position = self.append_position
        self.versions.execute(LogRecord(self.append_position, ordo_codecs.VERSION_EVENT, self.records[-1]))
        for service_id in executed_by:
            self.positions[service_id].value = self.commit_position

    def work(self, snapshot_position: int = -1) -> None:
        self.now_ns += 1
        self.versions.work(self.now_ns, snapshot_position)

    def refusal(self) -> str:
        (answer,) = self.told
        self.told.clear()
        return str(answer.refusal)


def upgraded(member: Member, app_version: int, service_id: int, *others: tuple[int, ...]) -> None:
    member.ask(app_version, service_id)
    for one in (1, 2):
        member.tell(one, *others)
    member.work()


def test_one_service_goes_over_where_every_voter_has_the_code_for_it() -> None:
    member = Member((1,), (1, 2))
    upgraded(member, 2, 1, (1,), (1, 2))
    (record,) = member.records
    assert (record.app_version, record.service_id, record.member_id) == (2, 1, 0)
    member.commit(0)
    member.work()
    assert not member.told, "service 1 has not gone over"
    member.commit(1)
    member.work()
    assert member.told.pop().log_position == member.commit_position
    assert member.announced[-1] == f"version 2 of service 1 is in force from {member.commit_position} on"
    assert member.versions.log.at(member.commit_position) == [1, 2]
    assert member.versions.of_first_record() == 1, "the first record of a term says that of service 0"
    member.ask(2, 1)
    assert member.refusal() == "version 2 of service 1 is in force already"


def test_all_go_over_as_ever_and_only_those_that_change_need_to_hand_over() -> None:
    member = Member((1, 2), (1, 2))
    upgraded(member, 2, 1, (1, 2), (1, 2))
    member.commit(0, 1)
    member.work()
    member.told.clear()
    member.versions.survey.own[1] = [Code(2, 0)]
    upgraded(member, 2, ALL_SERVICES, (1, 2), (2,))
    assert member.records[-1].service_id == ALL_SERVICES
    member.commit(0, 1)
    assert member.announced[-1].startswith("version 2 of all services")


def test_what_a_leader_refuses() -> None:
    member = Member((1, 2), (1, 2), level=1)
    member.ask(2, 1)
    assert "an upgrade of one service alone needs protocol level 2 of the log, which has 1" in member.refusal()
    member.newest_level = SERVICE_VERSION_LEVEL
    member.ask(2, 2)
    assert member.refusal() == "there is no service 2: the last one is 1"
    member.ask(1)
    assert member.refusal() == "version 1 is in force already"
    member.versions.survey.own[1] = [Code(1, 0), Code(2, HANDS_OVER)]
    member.ask(2, 1)
    assert "service 1 of version 1 cannot hand its state over" in member.refusal()
    member.ask(2, 0)
    member.ask(2, 0)
    assert member.refusal() == "an upgrade to version 2 is under way"
    member.tell(1, (1, 2), (1,))
    member.tell(2, (1,), (1, 2))
    member.work()
    text = (
        "not every voter has code of version 2: member 2 has 1 for service 0. Give it to them ([[services]] versions)"
    )
    assert member.refusal().startswith(text)
    member.is_leader = False
    member.ask(2, 1)
    assert member.refusal() == "member 0 does not lead"
    assert not member.records


def test_a_log_that_has_lost_its_level_meanwhile_gets_no_record_that_needs_it() -> None:
    member = Member((1, 2), (1, 2))
    member.ask(2, 1)
    member.newest_level = 1
    for one in (1, 2):
        member.tell(one, (1, 2), (1, 2))
    member.work()
    assert "needs protocol level 2" in member.refusal() and not member.records


def test_a_snapshot_is_ordered_behind_each_upgrade_until_a_quorum_has_one() -> None:
    member = Member((1, 2), (1, 2))
    for service_id in (0, 1):
        upgraded(member, 2, service_id, (1, 2), (1, 2))
        member.commit(0, 1)
        member.work()
        member.work()
        assert member.snapshots_asked == service_id + 1
        if service_id == 0:
            member.work(member.commit_position + 96)
    member.now_ns += AGAIN_NS // 2
    member.work(member.commit_position - 96)
    assert member.snapshots_asked == 2, "it may be under way"
    member.now_ns += AGAIN_NS
    member.work(member.commit_position - 96)
    assert member.snapshots_asked == 3
    member.now_ns += AGAIN_NS
    member.work(member.commit_position + 96)
    member.work()
    assert member.snapshots_asked == 3


def test_a_refused_upgrade_is_not_answered_by_the_one_before() -> None:
    member = Member((1, 2), (1, 2))
    upgraded(member, 2, 1, (1, 2), (1, 2))
    member.commit(0, 1)
    member.work()
    member.told.clear()
    member.ask(2, 0)
    member.work()
    assert not member.told
    assert member.snapshots_asked == 1, "the first one still waits for its snapshot"


def test_states_are_hashed_where_the_code_in_force_of_all_services_does_it() -> None:
    member = Member((1, 2), (1, 2))
    own = member.versions.survey.own
    own[0], own[1] = [Code(1, HASHES)], [Code(1, 0), Code(2, HASHES)]
    assert not member.versions.gives_hashes
    member.versions.log.on_record(192, *event(2, 1))
    member.append_position = 192
    assert member.versions.gives_hashes


def test_a_log_begins_with_a_version_of_all_services_or_not_at_all() -> None:
    member = Member((1,), (2,), first_version=NO_VERSION)
    assert member.versions.of_first_record() == 1, "it has begun"
    member.versions.log.truncate(0)
    with pytest.raises(ClusterError, match="a new log begins with one version for all services"):
        member.versions.of_first_record()


def test_tools_are_told_what_is_in_force_for_each_service() -> None:
    member = Member((1,), (1, 2))
    member.versions.log.on_record(192, *event(2, 1))
    member.commit_position = member.append_position = 192
    member.versions.on_query(make_record(ordo_codecs.VERSIONS_QUERY, correlation_id=5), 0)
    member.tell(1, (1,), (1, 2))
    member.tell(2, (1,), (2,))
    member.work()
    (answer,) = member.told
    assert (answer.app_version, answer.since_position) == (1, 96)
    assert decode_in_force(answer.in_force) == [InForce(1, 96), InForce(2, 192)]
    rows = [(row.member_id, row.service_id, row.app_version) for row in decode_services(answer.services)]
    assert rows == [(0, 0, 1), (0, 1, 1), (0, 1, 2), (1, 0, 1), (1, 1, 1), (1, 1, 2), (2, 0, 1), (2, 1, 2)]


# -- services that stand still -----------------------------------------------------------------------------------------


class Following:
    """A member whose service 1 stands still at 300, and perhaps others elsewhere."""

    def __init__(self) -> None:
        self.is_leading, self.leader_member_id, self.append_position = False, 2, 1000
        self.began: list[Any] = []
        self.handed_over: list[int] = []
        self.errors: list[str] = []
        self.replaced: list[int] = []
        self.ended: list[str] = []
        self.transfer = SimpleNamespace(begin=lambda target, now_ns: self.handed_over.append(now_ns))
        mine = cast(Any, self)
        self.lacks = VersionLacks(mine, mine, mine, mine, 3)
        self.stand(1, 300, 2)

    def stand(self, service_id: int, position: int, app_version: int) -> None:
        values = make_record(ordo_codecs.SERVICE_LACK, log_position=position, app_version=app_version)
        self.lacks.on_service_lack(service_id, values, [Code(1, 0), Code(4, 0)])

    def record_error(self, message: str) -> None:
        self.errors.append(message)

    def announce(self, name: str, text: str) -> None: ...

    def begin_from(self, holders: list[int], wanted: HeldSnapshot, leader_id: int, now_ns: int) -> bool:
        self.began.append(wanted.log_position)
        return True

    def replace_snapshots(self, entry: Any, digest: bytes, position: int) -> None:
        self.replaced.append(position)

    def start_again(self, reason: str) -> None:
        self.ended.append(reason)

    def offer(self, position: int) -> None:
        self.lacks.work(cast(Any, self), HeldSnapshot(position, b""), 7, [0, 2])


def test_the_snapshot_must_be_behind_the_first_service_that_stands_still() -> None:
    member = Following()
    member.stand(2, 200, 3)
    assert (member.lacks.of(0), member.lacks.of(2), member.lacks.first) == ((-1, 0), (200, 3), Lack(200, 3))
    for position in (200, 1001):
        member.offer(position)
    assert member.began == []
    member.offer(250)
    assert member.began == [250], "service 2 gets past its stretch"
    fetched = SimpleNamespace(entry=SimpleNamespace(log_position=250), digest=b"")
    assert member.lacks.install(cast(Any, fetched)) and member.replaced == [250] and len(member.ended) == 1
    fetched.entry.log_position = 200
    assert not member.lacks.install(cast(Any, fetched))


def test_it_names_the_service_and_a_leader_hands_over() -> None:
    member = Following()
    assert "service 1 stands still at log position 300" in member.errors[0]
    assert "version 2 is in force, and this member has code of 1, 4 only" in member.errors[0]
    member.is_leading = True
    member.offer(400)
    assert (member.handed_over, member.began) == ([7], [])
