"""Quotas: accounts that fill up with time, who is told that they have to wait, and in which words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ordo.cluster.module.sessions.quota_settings import PrincipalSettings, QuotaSettings
from ordo.cluster.module.sessions.session_quotas import QuotaCounters, SessionQuotas
from ordo.cluster.wire.sessions.ingress_notice import FREE_NOTICE, decode_held, decode_notice, encode_held
from ordo.runtime.native.counters import local_counter
from ordo.sequencer.quotas import Quotas
from tests.archive.streams import Stream
from tests.cluster.module.member import make_sequencer

MS = 1_000_000
S = 1_000_000_000
IMAGE = Stream().image
NO_LOG: Any = None


def test_an_account_lets_a_burst_through_and_then_its_rate() -> None:
    quotas = Quotas(burst_ns=100 * MS)
    account = quotas.open(1000, 0)
    at_once = sum(quotas.take(account, 32, S) for _ in range(500))
    assert at_once == 101, "a tenth of a second's, and the one that goes into debt"
    taken = sum(quotas.take(account, 32, S + at * MS // 4) for at in range(1, 4001))
    assert taken == 1000


def test_no_message_is_too_long_for_a_quota_of_bytes() -> None:
    quotas = Quotas(burst_ns=10 * MS)
    account = quotas.open(0, 1 << 20)
    assert quotas.take(account, 2 << 20, S)
    assert not quotas.take(account, 1, 2 * S), "two seconds of its quota are spent"
    assert quotas.take(account, 1, 3 * S)


def test_the_sessions_of_a_principal_share_what_it_has() -> None:
    quotas = Quotas(burst_ns=MS)
    principal = quotas.open(10, 0)
    one, other = quotas.open(0, 0, principal), quotas.open(0, 0, principal)
    assert quotas.take(one, 32, S)
    assert not quotas.take(other, 32, S + MS)
    assert quotas.take(other, 32, S + 100 * MS)
    assert not quotas.is_settled(principal, S + 100 * MS) and quotas.is_settled(principal, S + 200 * MS)


def test_a_closed_account_gives_its_number_away_and_nothing_else() -> None:
    quotas = Quotas(burst_ns=MS)
    first = quotas.open(1, 0)
    assert quotas.take(first, 1, S) and not quotas.take(first, 1, S)
    quotas.close(first)
    assert quotas.list_held(S) == []
    assert quotas.open(1, 0) == first
    assert quotas.take(first, 1, S)


@given(
    st.lists(st.tuples(st.integers(0, 20 * MS), st.integers(0, 5000)), max_size=100),
    st.integers(1, 1000),
    st.integers(1024, 100_000),
    st.integers(1, 200),
)
def test_no_more_than_a_burst_and_the_rate_is_ever_taken(
    arrivals: list[tuple[int, int]], messages: int, size_bytes: int, burst_ms: int
) -> None:
    quotas = Quotas(burst_ns=burst_ms * MS)
    account = quotas.open(messages, size_bytes)
    now_ns, taken = S, []
    for gap_ns, length in arrivals:
        now_ns += gap_ns
        if quotas.take(account, length, now_ns):
            taken.append(length)
    allowed_s = (now_ns - S + burst_ms * MS) / S
    assert len(taken) <= allowed_s * messages * 1.001 + 1
    assert sum(taken) <= allowed_s * size_bytes * 1.001 + max(taken, default=0)


class Held:
    """Sessions 1 and 2 of desk-7 and 3 of nobody in particular, at a leader whose quotas are given."""

    def __init__(self, common: dict[str, Any], *named: dict[str, Any]) -> None:
        self.open = {
            number: SimpleNamespace(id=number, encoded_principal=name)
            for number, name in ((1, b"desk-7"), (2, b"desk-7"), (3, b"other"))
        }
        self.told: list[tuple[int, str]] = []
        self.kept: list[int] = []
        self.sequencer = make_sequencer()
        settings = QuotaSettings.from_mapping(common)
        self.sequencer.bound_ingress(Quotas(settings.burst_ns))
        self.sequencer.lead(7, NO_LOG)
        principals = [PrincipalSettings.from_mapping(one) for one in named]
        self.counters = QuotaCounters(sessions=local_counter(), holds=local_counter())
        host: Any = self
        self.quotas = SessionQuotas(settings, principals, self.sequencer, host, host, self.counters)

    def get(self, session_id: int) -> Any:
        return self.open.get(session_id)

    def count_of_principal(self, principal: bytes) -> int:
        return sum(one.encoded_principal == principal for one in self.open.values())

    def notify(self, session: Any, notice: str) -> None:
        self.told.append((session.id, notice))

    def touch_stream(self, session_id: int) -> None:
        self.kept.append(session_id)

    def flood(self, session_id: int, until_ms: int, from_ms: int = 0) -> None:
        """More messages than any quota has, with a look every 10 ms."""
        account = self.quotas.open_account(session_id, IMAGE)
        for at_ms in range(from_ms, until_ms, 10):
            for _ in range(50):
                self.sequencer.quotas.take(account, 100, S + at_ms * MS)
            self.quotas.work(S + at_ms * MS)


def test_a_session_is_told_once_that_it_has_to_wait_and_once_that_it_has_not() -> None:
    held = Held({"session_messages": 100})
    held.flood(3, 1000)
    assert held.told == [(3, encode_held("the quota of this session is used up: 100 messages a second"))]
    assert held.counters.sessions.value == 1 and held.counters.holds.value > 1000
    quotas = held.sequencer.quotas
    assert quotas.is_held(held.quotas.open_account(3, IMAGE)) and not quotas.is_held(-1)
    assert not quotas.is_held(held.quotas.open_account(1, IMAGE))
    for at_ms in range(1000, 3000, 10):
        held.quotas.work(S + at_ms * MS)
    assert held.told[1:] == [(3, FREE_NOTICE)]
    assert held.counters.sessions.value == 0


def test_a_session_that_waits_for_its_principal_is_told_so() -> None:
    held = Held({}, {"name": "desk-7", "messages": 50, "bytes": "64k"})
    held.flood(1, 500)
    (told,) = held.told
    assert told == (
        1,
        encode_held("the quota of all sessions of 'desk-7' is used up: 50 messages and 65536 bytes a second"),
    )
    held.flood(3, 1000, 500)
    assert held.told[1:] == [], "nobody bounds the others"


def test_a_session_stays_open_while_its_messages_wait() -> None:
    """What keeps it alive waits behind a message that costs more of its quota than the session timeout is long."""
    held = Held({"session_bytes": "1k"})
    quotas, account = held.sequencer.quotas, held.quotas.open_account(3, IMAGE)
    assert quotas.take(account, 64 << 10, S), "a minute of its quota"
    assert not quotas.take(account, 32, S)
    for at_ms in range(0, 60_000, 10):
        held.quotas.work(S + at_ms * MS)
    assert held.kept == [3] * 120, "twice a second"
    held.sequencer.stand_by()
    held.quotas.work(61 * S)
    assert held.kept == [3] * 120


def test_a_principal_keeps_its_debt_when_its_sessions_come_and_go() -> None:
    held = Held({"principal_bytes": "1k"})
    quotas = held.sequencer.quotas
    assert quotas.take(held.quotas.open_account(1, IMAGE), 10 << 10, S), "ten seconds of its quota"
    del held.open[1], held.open[2]
    held.quotas.work(3 * S)
    held.open[4] = SimpleNamespace(id=4, encoded_principal=b"desk-7")
    assert not quotas.take(held.quotas.open_account(4, IMAGE), 1, 3 * S)
    assert quotas.take(held.quotas.open_account(3, IMAGE), 1, 3 * S), "another one's"
    del held.open[4]
    held.quotas.work(12 * S)
    held.open[5] = SimpleNamespace(id=5, encoded_principal=b"desk-7")
    assert quotas.take(held.quotas.open_account(5, IMAGE), 1, 12 * S)


def test_the_words_on_the_wire() -> None:
    assert decode_held(encode_held("a reason")) == "a reason"
    assert decode_held(FREE_NOTICE) == ""
    assert decode_held("ingress=open") is None and decode_held("") is None
    assert decode_notice(encode_held("a reason")) is None, "a client still sends"
