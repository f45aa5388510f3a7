"""Connect requests at the leader: what one host may have waiting, and who may answer a challenge."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock

import pytest

from ordo.archive.protocol.own_codecs import IMPLEMENTATION, ToldIdentity
from ordo.cluster.module.sessions.session_requests import WAITING_MIN, LogFacts, SessionBounds, SessionRequests
from ordo.cluster.module.sessions.sessions import OpenSessions
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.sessions.message_limit import decode_message_limit, encode_message_limit
from ordo.cluster.wire.sessions.principal_mark import MARK_BYTES, WANTED, decode_mark, encode_mark
from ordo.runtime.errors import RegistrationError
from ordo.runtime.native.cluster_time import TimeUnit
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.runtime.security.authentication import AcceptAll, Right
from ordo.sequencer.session_table import SessionTable
from tests.attacks.gate import ANSWER, PASSWORD, Gate
from tests.cluster.module.test_operators import Image, Publication
from tests.cluster.module.test_sessions import Term
from tests.records import make_record

LEADER = 2


class SlowDriver:
    """Makes publications when it is told to, as for names that take their time."""

    def __init__(self) -> None:
        self._ids = count(1)
        self.asked: dict[int, str] = {}
        self.is_slow = True
        self.fails = False
        self.is_connected = False
        self.made: list[Publication] = []

    def async_add_publication(self, channel: str, stream_id: int) -> int:
        registration_id = next(self._ids)
        self.asked[registration_id] = channel
        return registration_id

    def async_add_counter(self, type_id: int, label: str, key: bytes) -> int:
        raise RegistrationError("no counter is free", code=11)

    def get(self, registration_id: int) -> Any:
        if self.fails:
            raise RegistrationError("unknown host", code=11)
        if self.is_slow:
            return None
        made: Any = Publication(self.asked[registration_id])
        made.registration_id, made.is_connected = registration_id, self.is_connected
        self.made.append(made)
        return made

    def invoke_driver(self) -> None:
        pass


class Leader:
    """A leader with room for few sessions."""

    def __init__(self, gate: Any = None, bounds: SessionBounds | None = None, table: Any = None) -> None:
        self.driver = SlowDriver()
        self.term = Term(1_000_000_000, LEADER)
        self.refused: list[str] = []
        self.told_identity: ToldIdentity | None = None
        self.told_beginning: ToldIdentity | None = None
        client, ids = cast(Any, self.driver), count(1 << 40)
        self.open = OpenSessions(client, table or SessionTable(), 10_000)
        self.requests = SessionRequests(
            client,
            self.open,
            cast(Any, gate or Gate()),
            session_timeout_ns=10_000_000_000,
            bounds=bounds or SessionBounds.of(2),
            log_facts=LogFacts(
                lambda: 1000, told_identity=lambda: self.told_identity, told_beginning=lambda: self.told_beginning
            ),
            on_rejected=self.refused.append,
            draw_session_id=lambda: next(ids),
        )

    def connect(
        self,
        image: Any,
        credentials: bytes = b"",
        client_info: str = "",
        leader_id: int = LEADER,
        cluster_time: int = 0,
    ) -> None:
        request = SimpleNamespace(
            correlation_id=1,
            response_stream_id=102,
            version=codecs.CLIENT_PROTOCOL_VERSION,
            response_channel="aeron:udp?endpoint=some.name:4000",
            encoded_credentials=credentials,
            client_info=client_info,
        )
        self.requests.on_connect_request(request, image, self.term, leader_id, cluster_time)

    def work(self, cluster_time: int = 1, leader_id: int = LEADER) -> None:
        self.requests.work(self.term, leader_id, cluster_time)


def image_of(host: str, port: int = 1) -> Any:
    image: Any = Image(f"{host}:{port}")
    return image


@pytest.mark.parametrize("end", ["no such name", "the stream is gone", "it is made"])
def test_requests_whose_names_are_looked_up_count_for_their_host(end: str) -> None:
    """They did not, so that one host that named slow names took the places of all others."""
    leader = Leader()
    stranger = image_of("10.0.0.66")
    for _ in range(3 * WAITING_MIN):
        leader.connect(stranger)
    assert len(leader.driver.asked) == WAITING_MIN
    assert len(leader.refused) == 2 * WAITING_MIN
    for _ in range(3 * WAITING_MIN):
        leader.connect(image_of("10.0.0.1"))
    assert len(leader.driver.asked) == 2 * WAITING_MIN, "as many as all hosts together may"

    leader.driver.is_slow, leader.driver.fails = False, end == "no such name"
    stranger.is_closed = end == "the stream is gone"
    leader.work()
    leader.driver.is_slow, leader.driver.fails = True, False
    before = len(leader.driver.asked)
    leader.connect(image_of("10.0.0.66", 2))
    assert len(leader.driver.asked) == before + (end != "it is made"), "what is over counts no more"


@pytest.mark.parametrize("asked_in", TimeUnit)
@pytest.mark.parametrize("answered_in", TimeUnit)
def test_requests_wait_as_long_in_each_unit_of_time(asked_in: TimeUnit, answered_in: TimeUnit) -> None:
    """On members that do not lead, too, whatever their setting is; and while the log goes over to another unit."""
    member = Leader()
    member.driver.is_slow = False
    begin_s = 1_790_000_000
    member.connect(image_of("10.0.0.1"), leader_id=1, cluster_time=asked_in.duration(seconds=begin_s))
    member.work(answered_in.duration(seconds=begin_s + 10), leader_id=1)
    assert len(member.requests) == 1
    member.work(answered_in.duration(seconds=begin_s + 10, milliseconds=1), leader_id=1)
    assert len(member.requests) == 0


def test_only_the_stream_that_asked_for_a_session_answers_its_challenge() -> None:
    gate = Gate()
    leader = Leader(gate)
    client = image_of("10.0.0.1")
    leader.driver.is_slow, leader.driver.is_connected = False, True
    leader.connect(client, PASSWORD)
    leader.work()
    leader.work()
    (publication,) = leader.driver.made
    found = codecs.decode(publication.sent[-1])
    assert found is not None and found[0] is codecs.CHALLENGE
    response = make_record(
        codecs.CHALLENGE_RESPONSE,
        cluster_session_id=found[1].cluster_session_id,
        correlation_id=9,
        encoded_credentials=ANSWER,
    )
    leader.requests.on_challenge_response(response, image_of("10.0.0.1", 2), 0)
    assert not gate.answered
    leader.requests.on_challenge_response(response, client, 0)
    assert gate.answered == {found[1].cluster_session_id}


@pytest.mark.parametrize(
    ("client_info", "leaders"), [("", [1]), (f"name=x implementation={IMPLEMENTATION}", [NULL_VALUE])]
)
def test_who_asks_during_an_election_is_redirected_to_a_member_that_there_is(
    client_info: str, leaders: list[int]
) -> None:
    """Told of member -1, Aeron's client waited for it until it gave up; Ordo's own asks another member at once."""
    member = Leader()
    member.driver.is_slow, member.driver.is_connected = False, True
    member.connect(image_of("10.0.0.1"), client_info=client_info, leader_id=NULL_VALUE)
    for _ in range(3):
        member.work(leader_id=NULL_VALUE)
    member.work(leader_id=1)
    (publication,) = member.driver.made
    told = [found[1] for one in publication.sent if (found := codecs.decode(one)) is not None]
    assert [(one.code, one.leader_member_id) for one in told] == [(codecs.EventCode.REDIRECT, one) for one in leaders]


class Doorkeeper:
    """Takes what a client shows for its principal; `root` is an operator."""

    def __init__(self) -> None:
        self.shown: dict[int, bytes] = {}

    def on_connect_request(self, session_id: int, encoded_credentials: bytes, now_ms: int) -> None:
        self.shown[session_id] = encoded_credentials

    def on_connected_session(self, proxy: Any, now_ms: int) -> None:
        proxy.authenticate(self.shown[proxy.session_id])

    def rights_of(self, encoded_principal: bytes) -> Right:
        return Right.OPERATOR if encoded_principal == b"root" else Right.INGRESS


class Door(Leader):
    """A leader that opens sessions, whose log commits every record when it is told to."""

    def __init__(self, bounds: SessionBounds, gate: Any = None) -> None:
        super().__init__(gate or Doorkeeper(), bounds, MagicMock())  # the native table takes native images only
        self.driver.is_slow, self.driver.is_connected = False, True
        self.records: list[bytes] = []
        self.term.append = self._append  # type: ignore[method-assign]
        self.told: list[str] = []

    def _append(self, record: bytes) -> bool:
        self.records.append(record)
        return True

    def ask(self, host: str, principal: bytes = b"desk", client_info: str = "") -> str:
        """What a client of the host is told; empty if its session is on its way to being opened."""
        before = len(self.records)
        self.connect(image_of(host), principal, client_info)
        self.work()
        self.work()
        if len(self.records) > before:
            return ""
        found = codecs.decode(self.driver.made[-1].sent[-1])
        assert found is not None
        return str(found[1].detail)

    def commit(self) -> None:
        for record in self.records:
            found = codecs.decode(record)
            assert found is not None
            self.requests.on_opened(self.open.execute_open(found[1], 96), self.term, 0)
        self.records.clear()


@pytest.mark.parametrize("are_committed", [True, False])
def test_one_host_does_not_take_the_places_of_others(are_committed: bool) -> None:
    door = Door(SessionBounds.of(10, of_host=4))
    for _ in range(4):
        assert door.ask("10.0.0.66") == ""
    if are_committed:
        door.commit()
    refused = "concurrent session limit: 4 sessions of host 10.0.0.66; see max_sessions_per_host"
    assert [door.ask("10.0.0.66") for _ in range(3)] == [refused] * 3
    assert door.ask("10.0.0.1") == ""
    door.commit()
    first = next(iter(door.open))
    door.open.execute_close(first.id)
    assert door.ask("10.0.0.66") == ""


@pytest.mark.parametrize("are_committed", [True, False])
def test_one_principal_does_not_take_the_places_of_others(are_committed: bool) -> None:
    door = Door(SessionBounds.of(10, of_principal=3))
    for number in range(3):
        assert door.ask(f"10.0.0.{number}", b"greedy") == ""
    if are_committed:
        door.commit()
    refused = "concurrent session limit: 3 sessions of this principal; see max_sessions_per_principal"
    assert door.ask("10.0.0.9", b"greedy") == refused
    assert door.ask("10.0.0.9", b"modest") == ""
    door.commit()
    for session in [one for one in door.open if one.encoded_principal == b"greedy"]:
        door.open.execute_close(session.id)
    assert door.ask("10.0.0.9", b"greedy") == ""


@pytest.mark.parametrize("are_committed", [True, False])
def test_the_last_places_are_for_operators(are_committed: bool) -> None:
    door = Door(SessionBounds.of(6, of_operators=2))
    for number in range(4):
        assert door.ask(f"10.0.0.{number}", b"desk") == ""
    if are_committed:
        door.commit()
    assert door.ask("10.0.0.7") == "concurrent session limit: the last 2 are for operators; see operator_sessions"
    assert door.ask("10.0.0.7", b"root") == ""
    assert door.ask("10.0.0.8", b"root") == ""
    assert door.ask("10.0.0.9", b"root") == "concurrent session limit"


def test_a_cluster_that_authenticates_nobody_keeps_nothing_for_operators() -> None:
    door = Door(SessionBounds.of(3, of_operators=2), AcceptAll())
    assert [door.ask(f"10.0.0.{number}") for number in range(3)] == ["", "", ""]
    assert door.ask("10.0.0.9") == "concurrent session limit"


def test_bounds_have_defaults_for_clusters_of_any_size() -> None:
    assert SessionBounds.of(4096)[:4] == (4096, 3072, 3072, 16)
    assert SessionBounds.of(2)[:4] == (2, 64, 64, 0)
    assert SessionBounds.of(100, 10, 20, 200)[:4] == (100, 10, 20, 100)


def test_a_client_that_asks_is_told_a_mark_of_its_principal() -> None:
    """Which is in the event that opens its session, and in nobody else's."""
    door = Door(SessionBounds.of(8))
    details = []
    asked = [("name=gateway wants=principal", b"desk"), *((WANTED, one) for one in (b"root", b"desk", b""))]
    for info, principal in (*asked, ("wants=principals", b"desk")):
        assert door.ask("10.0.0.1", principal, info) == ""
        session_id = codecs.decode(door.records[-1])[1].cluster_session_id  # type: ignore[index]
        door.commit()
        (event,) = door.open.get(session_id).events  # type: ignore[union-attr]
        details.append(str(codecs.decode(event)[1].detail))  # type: ignore[index]
    assert {decode_message_limit(one) for one in details} == {1000}
    desk, root, again, nobody, unasked = map(decode_mark, details)
    assert len(desk) == 2 * MARK_BYTES and desk == again != root and b"desk".hex() not in desk
    assert (nobody, unasked) == ("", "") and details[3] == details[4] == encode_message_limit(1000)


@pytest.mark.parametrize(("client_info", "is_told"), [("commit=ordo", True), ("name=java", False)])
@pytest.mark.parametrize("leads_on", [True, False])
def test_a_client_of_the_first_second_is_told_later_whose_log_it_is(
    client_info: str, is_told: bool, leads_on: bool
) -> None:
    """The log of a new cluster says it after a second; before that, a client was told nothing, and never was."""
    door = Door(SessionBounds.of(8))
    assert door.ask("10.0.0.1", b"desk", client_info) == ""
    session_id = codecs.decode(door.records[-1])[1].cluster_session_id  # type: ignore[index]
    door.commit()
    events = door.open.get(session_id).events  # type: ignore[union-attr]
    door.work()
    assert len(events) == 1
    if not leads_on:
        door.requests.lose_leadership(door.term)
    door.told_identity = ToldIdentity(1, 2, 96, 96)
    for _ in range(2):
        door.work()
    found = [ordo_codecs.decode_any(one) for one in events]
    told = [one[1] for one in found if one is not None and one[0] is ordo_codecs.LOG_IDENTITY]
    assert [(one.session_id, one.correlation_id, one.identity_position) for one in told] == (
        [(session_id, 1, 96)] if is_told and leads_on else []
    )


@pytest.mark.parametrize(("client_info", "positions"), [("commit=ordo", [-1, 96]), ("name=java", [])])
def test_a_client_of_the_first_second_is_told_what_the_first_record_says_until_then(
    client_info: str, positions: list[int]
) -> None:
    door = Door(SessionBounds.of(8))
    door.told_beginning = ToldIdentity(1, 2, 96, -1)
    assert door.ask("10.0.0.1", b"desk", client_info) == ""
    session_id = codecs.decode(door.records[-1])[1].cluster_session_id  # type: ignore[index]
    door.commit()
    events = door.open.get(session_id).events  # type: ignore[union-attr]
    door.work()
    door.told_identity = ToldIdentity(1, 2, 96, 96)
    for _ in range(2):
        door.work()
    found = [ordo_codecs.decode_any(one) for one in events]
    told = [one[1] for one in found if one is not None and one[0] is ordo_codecs.LOG_IDENTITY]
    assert [one.executed_position for one in told] == positions


def test_who_is_told_whose_log_it_is_is_not_told_what_its_first_record_says() -> None:
    door = Door(SessionBounds.of(8))
    door.told_beginning, door.told_identity = ToldIdentity(1, 2, 96, -1), ToldIdentity(1, 2, 96, 96)
    assert door.ask("10.0.0.1", b"desk", "commit=ordo") == ""
    session_id = codecs.decode(door.records[-1])[1].cluster_session_id  # type: ignore[index]
    door.commit()
    found = [ordo_codecs.decode_any(one) for one in door.open.get(session_id).events]  # type: ignore[union-attr]
    told = [one[1] for one in found if one is not None and one[0] is ordo_codecs.LOG_IDENTITY]
    assert [one.executed_position for one in told] == [96]


@pytest.mark.parametrize(
    "detail", ["", "principal=", "principal=ab", f"principal={'g' * 32}", f"xprincipal={'a' * 32}"]
)
def test_what_is_no_mark_is_none(detail: str) -> None:
    assert decode_mark(detail) == ""
    assert decode_mark(f"{detail} {encode_mark(b'p')}") == encode_mark(b"p").partition("=")[2]
