"""How many sessions callers may open at a gateway: of one host, in all, and of operators. No cluster is needed."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ordo.cluster.client.session_states import ClientState
from ordo.cluster.wire.sessions.principal_mark import decode_mark, encode_mark
from ordo.gateway.callers.call_context import host_of
from ordo.gateway.callers.sessions import EVICTED_IDLE_S, GatewaySessions
from ordo.gateway.callers.settings import GatewaySettings
from ordo.gateway.doors.settings import SessionsFullError
from ordo.gateway.services.operations import Operations
from ordo.runtime.errors import ClusterTimeoutError, ConfigurationError

NOWHERE = ("127.0.0.1:9",)
GREEDY, MODEST, OPERATOR = "10.0.0.66", "10.0.0.1", "127.0.0.1"
OF_HOST = "6 sessions of 10.0.0.66 are open, as many as one host may have: see --sessions-per-host"
OF_PRINCIPAL = "6 sessions of this token's principal are open, as many as one may have: see --sessions-per-principal"
OF_OPERATORS = "the last 1 sessions are for operators: see --operator-sessions and --operator-hosts"
ALL = "8 sessions are open, as many as there may be: see --sessions-max"


class Door:
    """Eight sessions, of which a host may have six, and the last is for operators."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        """The time of the sessions, which passes for no test: how long a machine takes shows nothing."""
        settings = GatewaySettings(endpoints=NOWHERE, sessions_max=8, operator_sessions=1)
        self.sessions = GatewaySessions(settings, lambda: self.now_s)

    async def ask(self, host: str, token: bytes) -> str:
        """Why there is no session; empty where one is being opened."""
        try:
            await self.sessions.get(token, 0.001, host)
        except SessionsFullError as error:
            return error.message
        except ClusterTimeoutError:
            return ""
        raise AssertionError("nobody is there")

    def finish(self, token: bytes, idle_s: float, calls: int = 0) -> None:
        """The session was opened, and was used so long ago."""
        session = self.sessions._sessions[token]
        session.opened.set()
        session.calls, session.used_s = calls, self.now_s - idle_s

    async def open(self, host: str, token: bytes, principal: bytes) -> str:
        """Why a token that the cluster lets in for a principal gets no session; empty where it does."""
        refused = await self.ask(host, token)
        session = self.sessions._sessions.get(token)
        if refused or session is None:
            return refused
        mark = decode_mark(encode_mark(principal))
        session.client.close()
        client = SimpleNamespace(
            poll=lambda limit: 0, state=ClientState.CONNECTED, principal=mark, session_id=1, close=lambda: None
        )
        session.client = cast(Any, client)
        session.relay = cast(Any, SimpleNamespace(has_unsent=False))
        self.sessions._run(token, session)
        return session.failure.message if session.failure is not None else ""

    def tokens(self) -> set[bytes]:
        return {token for token in self.sessions._sessions if token}


async def fill(door: Door) -> None:
    """The greedy host has its share, and another one what is left."""
    assert [await door.ask(GREEDY, b"g%d" % number) for number in range(7)] == [""] * 6 + [OF_HOST]
    assert await door.ask(MODEST, b"m0") == ""
    assert await door.ask(MODEST, b"m1") == OF_OPERATORS


def run(test: Any) -> None:
    async def with_door() -> None:
        door = Door()
        try:
            await test(door)
        finally:
            door.sessions.close()

    asyncio.run(with_door())


def test_one_host_leaves_room_for_others_and_all_leave_some_for_operators() -> None:
    async def test(door: Door) -> None:
        await fill(door)
        assert await door.ask(GREEDY, b"g0") == "", "a session that is open is everybody's who shows its token"
        assert await door.ask(OPERATOR, b"o0") == ""
        assert await door.ask(OPERATOR, b"o1") == ALL

    run(test)


def test_a_silent_session_makes_room_and_one_in_use_does_not() -> None:
    async def test(door: Door) -> None:
        await fill(door)
        door.finish(b"g1", 3 * EVICTED_IDLE_S)
        door.finish(b"g2", 2 * EVICTED_IDLE_S)
        door.finish(b"g3", 9 * EVICTED_IDLE_S, calls=1)
        door.finish(b"g4", EVICTED_IDLE_S / 2)
        assert await door.ask(GREEDY, b"g7") == ""
        assert b"g1" not in door.tokens() and b"g2" in door.tokens(), "the one that was silent longest"
        assert await door.ask(MODEST, b"m1") == ""
        assert b"g2" not in door.tokens()
        assert await door.ask(GREEDY, b"g8") == OF_OPERATORS, "the others are in use, or were just now"

    run(test)


def test_the_gateways_own_session_is_beside_the_bounds() -> None:
    async def test(door: Door) -> None:
        await fill(door)
        with pytest.raises(ClusterTimeoutError):
            await door.sessions.get(None, 0.001, GREEDY)

    run(test)


def test_one_principal_leaves_room_for_others_whatever_tokens_it_has() -> None:
    """And from however many hosts: eight sessions, of which a principal may have six."""

    async def test(door: Door) -> None:
        hosts = [f"10.0.1.{number}" for number in range(9)]
        found = [await door.open(host, b"t%d" % number, b"desk") for number, host in enumerate(hosts[:7])]
        assert found == [""] * 6 + [OF_PRINCIPAL]
        assert len(door.tokens()) == 6, "the session that was one too many is closed"
        opened = len(door.sessions._sessions)
        assert await door.ask(hosts[6], b"t6") == OF_PRINCIPAL and len(door.sessions._sessions) == opened
        assert await door.open(hosts[7], b"u0", b"other") == ""
        door.finish(b"t2", 2 * EVICTED_IDLE_S)
        assert await door.open(hosts[6], b"t6", b"desk") == "", "one that was silent makes room"
        assert b"t2" not in door.tokens()
        assert await door.open(OPERATOR, b"t7", b"desk") == "", "an operator's host may have all"
        assert await door.open(hosts[8], b"n0", b"") == ALL

    run(test)


def test_nobody_has_a_bound_as_a_principal() -> None:
    """Where the cluster authenticates nobody, or its leader is older and does not say whose a session is."""

    async def test(door: Door) -> None:
        assert [await door.open(f"10.0.1.{number}", b"t%d" % number, b"") for number in range(7)] == [""] * 7

    run(test)


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        ("ipv4:10.0.0.66:51234", "10.0.0.66"),
        ("ipv6:[fe80::1]:51234", "fe80::1"),
        ("ipv6:%5B::1%5D:51234", "::1"),
        ("unix:/run/ordo.sock", "unix"),
    ],
)
def test_a_host_is_an_address_without_its_port(peer: str, host: str) -> None:
    assert host_of(SimpleNamespace(peer=lambda: peer)) == host


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"sessions_per_host": 9}, "sessions_per_host=9: must be 0 to sessions_max=8"),
        ({"sessions_per_principal": 9}, "sessions_per_principal=9: must be 0 to sessions_max=8"),
        ({"operator_sessions": 8}, "operator_sessions=8: must be -1 to below sessions_max=8"),
        ({"operator_hosts": ("desk",)}, "--operator-hosts desk: must be IP addresses"),
    ],
)
def test_mistakes_are_one_line(values: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        GatewaySettings(endpoints=NOWHERE, sessions_max=8, **values)


def test_a_host_with_many_orders_does_not_keep_others_waiting() -> None:
    order: list[str] = []

    class Context:
        def __init__(self, host: str) -> None:
            self._host = host

        def peer(self) -> str:
            return f"ipv4:{self._host}:1"

        def time_remaining(self) -> None:
            return None

        def invocation_metadata(self) -> tuple[()]:
            return ()

        async def abort(self, *_: object) -> None:
            raise AssertionError("nothing refuses the call")

        async def write(self, message: object) -> None:
            raise AssertionError("no stream")

    async def test() -> None:
        operations = Operations(GatewaySettings(endpoints=NOWHERE))

        async def ask(host: str) -> None:
            await operations._carry_out(Context(host), lambda credentials, timeout_s: order.append(host))

        await asyncio.gather(*(ask(GREEDY) for _ in range(20)), ask(MODEST))
        assert not operations._of_host

    asyncio.run(test())
    assert order.index(MODEST) <= 2 and len(order) == 21
