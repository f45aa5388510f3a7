"""The cluster client against members in virtual time (cluster-client.md §4 to §6)."""

import asyncio
import os
import struct
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import pytest

from ordo.cluster.client.async_client import AsyncClusterClient
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.session_states import ClientEvent, ClientState
from ordo.cluster.client.settings import ClientSettings
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.codecs import EventCode
from ordo.cluster.wire.sessions.ingress_notice import encode_failure, encode_held
from ordo.cluster.wire.sessions.message_limit import encode_announcement
from ordo.runtime.errors import (
    ClusterError,
    ClusterTimeoutError,
    ConfigurationError,
    SessionClosedError,
    SessionRejectedError,
)
from ordo.runtime.native.time_units import SECOND_NS
from tests.cluster.client.session_members import RealWorld, SessionWorld

T = TypeVar("T")


@pytest.fixture
def world() -> Iterator[SessionWorld]:
    world = SessionWorld()
    yield world
    world.close()


class Inbox:
    def __init__(self) -> None:
        self.messages: list[tuple[int, int, bytes]] = []
        self.events: list[tuple[EventCode, str]] = []
        self.leaders: list[tuple[int, int, dict[int, str]]] = []

    def options(self) -> dict[str, Any]:
        return {
            "on_message": lambda session_id, timestamp, payload: self.messages.append((session_id, timestamp, payload)),
            "on_session_event": lambda code, detail: self.events.append((code, detail)),
            "on_new_leader": lambda leadership_term_id, member_id, endpoints: self.leaders.append(
                (leadership_term_id, member_id, endpoints)
            ),
        }


def test_a_session_opens_with_the_leader(world: SessionWorld) -> None:
    client = world.client(client_name="me")
    assert client.is_connected
    assert (client.session_id, client.leadership_term_id, client.leader_member_id) == (1, 4, 0)
    request = world.members[0].received[0][1]
    assert request.version == 0x000300
    assert request.response_stream_id == 102
    assert request.response_channel.startswith("aeron:udp?endpoint=10.0.1.1:")
    assert not request.response_channel.startswith("aeron:udp?endpoint=10.0.1.1:0|")
    assert request.client_info.startswith("name=me ")


def test_nobody_can_guess_which_answer_a_client_waits_for(world: SessionWorld) -> None:
    """Else a stranger could refuse it the session, or open one, in a member's name."""
    clients = [world.client() for _ in range(2)]
    first, second = (values.correlation_id for name, values in world.leader.received if name == "SessionConnectRequest")
    assert all(client.is_connected for client in clients)
    assert abs(first - second) > 1_000_000


@pytest.mark.parametrize("leader_id", [1, 2])
def test_a_follower_redirects_to_the_leader(world: SessionWorld, leader_id: int) -> None:
    world.leader_id = leader_id
    client = world.client()
    assert client.leader_member_id == leader_id
    client.send(b"hello")
    world.run(client, lambda: "SessionMessageHeader" in world.leader.names_received())


def test_endpoints_may_be_a_list_and_some_members_may_be_down(world: SessionWorld) -> None:
    world.down = {0, 2}
    world.leader_id = 1
    client = world.client(ingress_endpoints=[world.endpoints[member_id] for member_id in (1, 2, 0)])
    assert client.leader_member_id == 1
    assert client.ingress_endpoints[1] == world.endpoints[1]
    client.send(b"x")
    world.run(client, lambda: "SessionMessageHeader" in world.leader.names_received())


def test_a_member_that_does_not_answer_is_passed_over(world: SessionWorld) -> None:
    world.members[0].silent = True
    world.leader_id = 1
    client = world.client(connect_attempt_timeout_s=0.1)
    assert client.leader_member_id == 1
    assert "SessionConnectRequest" in world.members[0].names_received()


def test_a_name_that_cannot_be_resolved_is_passed_over(world: SessionWorld) -> None:
    """Neither the session nor what keeps it alive minds it."""
    world.leader_id = 2
    endpoints = world.endpoints | {0: "no-such-host:9000"}
    client = world.client(ingress_endpoints=endpoints, keep_alive_interval_s=0.1)
    assert client.leader_member_id == 2
    world.run(client, lambda: "SessionKeepAlive" in world.leader.names_received())


def test_a_cluster_that_takes_long_to_answer_is_waited_for(world: SessionWorld) -> None:
    """Commits on slow disks take longer than an attempt: sessions were opened for ever, and none was taken."""
    for member in world.members:
        member.answer_after_ns = 3 * SECOND_NS
    assert world.client().is_connected
    requests = [member.names_received().count("SessionConnectRequest") for member in world.members]
    assert requests == [1, 1, 1], "the others were asked after 1 s and 3 s; then the first one's session was there"


def test_what_a_client_waits_for_is_told_once(world: SessionWorld) -> None:
    for member in world.members:
        member.answer_after_ns = 4 * SECOND_NS
    events: list[ClientEvent] = []
    assert world.client(on_event=events.append).is_connected
    (waiting,) = [one for one in events if one.kind == "waiting"]
    assert "did not answer the connect request; for " in waiting.detail and waiting.detail.endswith(" s at most")


def test_without_a_callback_it_is_a_line_of_the_log(world: SessionWorld, caplog: pytest.LogCaptureFixture) -> None:
    for member in world.members:
        member.answer_after_ns = 4 * SECOND_NS
    assert world.client().is_connected
    assert [one.name for one in caplog.records] == ["ordo"]
    assert caplog.records[0].getMessage().startswith("client waits for the cluster: why=endpoints=0=")


def test_a_way_to_a_member_that_was_lost_while_connecting_is_opened_anew(world: SessionWorld) -> None:
    """A leader under load had lost it, and never accepted it again: no session was opened."""
    world.leader.silent = True
    began_ns = world.clock.now()
    world.at(began_ns + SECOND_NS // 2, lambda: world.network.block("10.0.1.1", world.address(0)))
    world.at(began_ns + 6 * SECOND_NS, world.network.heal)
    world.at(began_ns + 6 * SECOND_NS, lambda: setattr(world.leader, "silent", False))
    client = world.client(ingress_endpoints={0: world.leader.endpoint}, connect_timeout_s=30)
    assert client.is_connected


def test_the_session_of_a_request_that_was_given_up_does_not_stay(world: SessionWorld) -> None:
    """A leader under load answered after the next request: its first session stayed until it timed out, unused."""
    world.leader.answer_after_ns = int(2.5 * SECOND_NS)
    client = world.client(ingress_endpoints={0: world.leader.endpoint})
    assert world.leader.names_received().count("SessionConnectRequest") == 2
    assert client.session_id == 1, "the first that opened"
    world.run(client, lambda: "SessionCloseRequest" in world.leader.names_received())
    assert sorted(world.sessions) == [1, 2]
    closed = [values for name, values in world.leader.received if name == "SessionCloseRequest"]
    assert [values.cluster_session_id for values in closed] == [2]
    client.send(b"still there")
    world.run(client, lambda: "SessionMessageHeader" in world.leader.names_received())


@pytest.mark.parametrize(("asked", "learners"), [(0, set()), (1, set()), (1, {2})])
def test_another_leader_opens_the_session(world: SessionWorld, asked: int, learners: set[int]) -> None:
    """The record was the old leader's, the answer is the new one's, which a redirect may not have named.

    The client took the old leader's endpoint for the new one's, and sent there for ever.
    """
    inbox = Inbox()
    world.leader_id, world.learners = asked, learners
    world.members[asked].silent = True

    def fail_over() -> None:
        (request,) = (values for name, values in world.members[asked].received if name == "SessionConnectRequest")
        world.sessions[1], world.learners = request, set()
        world.fail_over(2)

    world.at(world.clock.now() + SECOND_NS // 2, fail_over)
    client = world.client(connect_attempt_timeout_s=2, **inbox.options())
    world.run(client, lambda: client.is_connected and client.ingress_endpoints[2] == world.endpoints[2])
    assert client.leader_member_id == 2
    client.send(b"to the new one")
    world.run(client, lambda: inbox.messages)
    assert "SessionMessageHeader" not in world.members[asked].names_received()


def test_a_session_that_is_announced_goes_on_by_a_new_publication(world: SessionWorld) -> None:
    """The member's process may be younger than the first one, and hear that from the middle on: without the mark
    that says where the client's messages begin, one that was executed was told to be in no log."""
    events: list[ClientEvent] = []
    member = world.leader
    member.silent = True

    def lead_again() -> None:
        (request,) = (values for name, values in member.received if name == "SessionConnectRequest")
        world.sessions[1] = request
        world.fail_over(member.member_id, stop=False)

    world.at(world.clock.now() + SECOND_NS // 2, lead_again)
    client = world.client(connect_attempt_timeout_s=2, on_event=events.append)
    world.run(client, lambda: client.is_connected)
    client.send(b"after it")
    world.run(client, lambda: "SessionMessageHeader" in member.streams)
    assert member.streams["SessionMessageHeader"] != member.streams["SessionConnectRequest"]
    assert "limited" not in [event.kind for event in events]


@pytest.mark.parametrize("way", ["offer", "request"])
def test_an_ingress_that_is_used_up_is_followed_by_another(world: SessionWorld, way: str) -> None:
    """Its positions end after 2^31 terms; this one begins near the end, each time."""
    end = "aeron:udp?term-length=64k|init-term-id=0|term-id=2147483647|term-offset=64512"
    client = world.client(ingress_channel=end)
    if way == "offer":
        for number in range(12):
            world.run(client, lambda number=number: client.offer(b"%d" % number * 100) > 0)
    else:
        for _ in range(12):
            client.submit(b"x" * 100)
    counted = world.leader.names_received
    name = "SessionMessageHeader" if way == "offer" else "OpenIdentity"
    world.run(client, lambda: counted().count(name) >= (12 if way == "offer" else 4))
    assert client.session_id == 1 and counted().count("SessionConnectRequest") == 1


def test_without_any_member_the_client_says_so_in_time(world: SessionWorld) -> None:
    world.down = {0, 1, 2}
    before_ns = world.clock.now()
    with pytest.raises(ClusterTimeoutError, match=r"endpoints=0=10.0.0.1:9000.*no member's ingress is connected"):
        world.client(connect_timeout_s=2)
    assert 2 * SECOND_NS <= world.clock.now() - before_ns < 3 * SECOND_NS


@pytest.mark.parametrize(
    ("code", "detail", "words"),
    [
        (EventCode.ERROR, "concurrent session limit", "refused the session: concurrent session limit"),
        (EventCode.AUTHENTICATION_REJECTED, "session failed authentication", "rejected the credentials"),
    ],
)
def test_a_refusal_is_an_error_with_the_clusters_words(
    world: SessionWorld, code: EventCode, detail: str, words: str
) -> None:
    world.refusal = code, detail
    with pytest.raises(SessionRejectedError, match=words):
        world.client()


def test_a_challenge_is_answered(world: SessionWorld) -> None:
    world.challenge = b"who are you?"
    client = world.client(credentials=b"me", on_challenge=lambda challenge: challenge + b" me")
    assert client.is_connected
    (_, request), (_, response) = world.leader.received[:2]
    assert request.encoded_credentials == b"me"
    assert response.encoded_credentials == b"who are you? me"


def test_messages_go_there_and_back_in_order(world: SessionWorld) -> None:
    inbox = Inbox()
    client = world.client(**inbox.options())
    sent = [bytes([index % 256]) * (index * 37 % 3000) for index in range(300)]
    for payload in sent:
        client.send(payload)
    world.run(client, lambda: len(inbox.messages) == len(sent))
    assert inbox.messages == [(1, 77, payload) for payload in sent]


def test_offers_report_back_pressure_and_lose_nothing(world: SessionWorld) -> None:
    inbox = Inbox()
    client = world.client(**inbox.options(), ingress_channel="aeron:udp?term-length=64k")
    taken = 0
    refused = 0
    while taken < 400:
        if client.offer(b"%04d" % taken + bytes(996)) > 0:
            taken += 1
        else:
            refused += 1
            client.poll()
    world.run(client, lambda: len(inbox.messages) == 400)
    assert refused > 0
    assert [payload[:4] for _, _, payload in inbox.messages] == [b"%04d" % number for number in range(400)]


def test_egress_of_other_sessions_is_not_ours(world: SessionWorld) -> None:
    inbox = Inbox()
    client = world.client(**inbox.options())
    world.sessions[99] = world.sessions[1]
    world.leader.send_message(99, b"not ours")
    world.leader.send_message(1, b"ours")
    world.run(client, lambda: inbox.messages)
    assert inbox.messages == [(1, 77, b"ours")]


def test_a_quiet_session_is_kept_alive_and_a_busy_one_needs_no_help(world: SessionWorld) -> None:
    client = world.client(keep_alive_interval_s=0.1)
    end_ns = world.clock.now() + SECOND_NS
    world.run(client, lambda: world.clock.now() > end_ns)
    keep_alives = [values for name, values in world.leader.received if name == "SessionKeepAlive"]
    assert 8 <= len(keep_alives) <= 11
    assert {(values.leadership_term_id, values.cluster_session_id) for values in keep_alives} == {(4, 1)}
    end_ns = world.clock.now() + SECOND_NS
    while world.clock.now() < end_ns:
        client.send(b"x")
    assert len([name for name in world.leader.names_received() if name == "SessionKeepAlive"]) <= len(keep_alives) + 1


def test_failover_with_the_old_leader_gone(world: SessionWorld) -> None:
    inbox = Inbox()
    client = world.client(**inbox.options())
    client.send(b"before")
    world.run(client, lambda: inbox.messages)
    world.fail_over(2)
    world.run(client, lambda: inbox.leaders)
    assert client.is_connected
    assert inbox.leaders == [(5, 2, world.endpoints)]
    assert (EventCode.OK, encode_announcement(1 << 20)) in inbox.events
    client.send(b"after")
    world.run(client, lambda: len(inbox.messages) == 2)
    assert world.leader.names_received() == ["SessionKeepAlive", "SessionMessageHeader"]
    assert inbox.messages[-1] == (1, 77, b"after")
    _, header = world.leader.received[-1]
    assert header.leadership_term_id == 5


def test_send_waits_through_a_failover(world: SessionWorld) -> None:
    """The old leader dies silently; the new one announces itself three seconds after the client noticed."""
    inbox = Inbox()
    client = world.client(**inbox.options())
    world.fail_over(1, announce=False)
    world.run(client, lambda: client.state is ClientState.AWAIT_NEW_LEADER)
    assert client.offer(b"nobody there") < 0
    announce_ns = world.clock.now() + 3 * SECOND_NS
    world.at(announce_ns, world.announce)
    client.send(b"after", timeout_s=10)
    assert world.clock.now() >= announce_ns
    world.run(client, lambda: inbox.messages)
    assert inbox.messages == [(1, 77, b"after")]
    assert inbox.leaders == [(5, 1, world.endpoints)]


def test_a_leader_that_comes_back_into_sight_goes_on(world: SessionWorld) -> None:
    """No status message reaches the client for longer than its publication stays connected, but its egress is whole."""
    inbox = Inbox()
    client = world.client(**inbox.options())
    world.network.block("10.0.1.1", "10.0.0.1")
    world.run(client, lambda: client.offer(b"lost on the way") < 0 and client.state is ClientState.AWAIT_NEW_LEADER)
    world.network.heal()
    world.run(client, lambda: client.is_connected)
    client.send(b"again")
    world.run(client, lambda: any(payload == b"again" for _, _, payload in inbox.messages))
    assert inbox.leaders == []
    assert client.session_id == 1


def test_the_old_leader_is_left_for_the_new_one_though_it_still_lives(world: SessionWorld) -> None:
    inbox = Inbox()
    client = world.client(**inbox.options())
    world.fail_over(1, stop=False)
    world.run(client, lambda: inbox.leaders)
    client.send(b"again")
    world.run(client, lambda: inbox.messages)
    assert "SessionMessageHeader" in world.members[1].names_received()
    assert "SessionMessageHeader" not in world.members[0].names_received()


def test_a_session_that_is_over_because_the_service_failed_says_so(world: SessionWorld) -> None:
    """Clients heard that the leader was gone."""
    details: list[str] = []
    client = world.client(new_leader_timeout_s=3, on_session_event=lambda code, detail: details.append(detail))
    (request,) = world.sessions.values()
    told = encode_failure(448, "ZeroDivisionError")
    world.leader.send_event(request.response_channel, 1, request.correlation_id, EventCode.OK, told)
    world.run(client, lambda: told in details)
    world.fail_over(1, announce=False)
    with pytest.raises(SessionClosedError, match="the service failed at record 448: ZeroDivisionError; the log"):
        world.run(client, lambda: False)


def test_the_failure_of_the_service_is_told_when_the_next_leader_is_lost_too(world: SessionWorld) -> None:
    details: list[str] = []
    client = world.client(new_leader_timeout_s=3, on_session_event=lambda code, detail: details.append(detail))
    (request,) = world.sessions.values()
    told = encode_failure(448, "ZeroDivisionError")
    world.leader.send_event(request.response_channel, 1, request.correlation_id, EventCode.OK, told)
    world.run(client, lambda: told in details)
    world.fail_over(1)
    world.run(client, lambda: client.leader_member_id == 1 and client.is_connected)
    world.fail_over(2, announce=False)
    with pytest.raises(
        SessionClosedError,
        match="no new one was announced in time; under an earlier leader the service failed at record 448: Zero",
    ):
        world.run(client, lambda: False)


def test_a_quota_of_the_leader_that_is_gone_is_forgotten(world: SessionWorld) -> None:
    """The next one counts anew, and says nothing of a quota that is not used up."""
    events: list[ClientEvent] = []
    client = world.client(on_event=events.append)
    (request,) = world.sessions.values()
    world.leader.send_event(
        request.response_channel, 1, request.correlation_id, EventCode.OK, encode_held("100 a second")
    )
    world.run(client, lambda: client.ingress_trouble == "100 a second")
    world.fail_over(1)
    world.run(client, lambda: client.leader_member_id == 1 and client.is_connected)
    assert client.ingress_trouble == ""
    assert [one.kind for one in events if one.kind in ("held", "free")] == ["held", "free"]


def test_without_a_new_leader_the_session_ends_in_time(world: SessionWorld) -> None:
    client = world.client(new_leader_timeout_s=3)
    world.fail_over(1, announce=False)
    before_ns = world.clock.now()
    with pytest.raises(SessionClosedError, match="no new one was announced"):
        world.run(client, lambda: False)
    assert 3 * SECOND_NS <= world.clock.now() - before_ns < 9 * SECOND_NS
    with pytest.raises(SessionClosedError):
        client.offer(b"late")
    with pytest.raises(SessionClosedError):
        client.send(b"late")


def test_a_session_closed_by_the_cluster_is_over(world: SessionWorld) -> None:
    inbox = Inbox()
    client = world.client(**inbox.options())
    request = world.sessions[1]
    world.leader.send_event(request.response_channel, 1, request.correlation_id, EventCode.CLOSED, "TIMEOUT")
    with pytest.raises(SessionClosedError, match="session 1 is over: TIMEOUT"):
        world.run(client, lambda: False)
    assert inbox.events == [(EventCode.CLOSED, "TIMEOUT")]


def test_closing_tells_the_cluster(world: SessionWorld) -> None:
    with world.client() as client:
        session_id = client.session_id
    for _ in range(100):
        world.step()
    name, values = world.leader.received[-1]
    assert (name, values.cluster_session_id) == ("SessionCloseRequest", session_id)
    assert client.is_closed
    client.close()


def test_send_gives_up_after_its_timeout(world: SessionWorld) -> None:
    client = world.client()
    world.down.add(0)
    with pytest.raises(ClusterTimeoutError, match="not taken in time"):
        for _ in range(10_000):
            client.send(bytes(1000), timeout_s=0.5)


def test_a_message_too_long_is_an_error(world: SessionWorld) -> None:
    client = world.client(ingress_channel="aeron:udp?term-length=64k")
    assert client.send(bytes(8192 - 32)) > 0
    with pytest.raises(ClusterError, match=r"message of 8,161 bytes: at most 8,160 are .*term-length=1m"):
        client.send(bytes(8192 - 31))


def test_a_callback_may_offer_and_poll(world: SessionWorld) -> None:
    answers: list[bytes] = []

    def on_message(session_id: int, timestamp: int, payload: bytes) -> None:
        answers.append(payload)
        if len(answers) < 5:
            client.offer(payload + b".")
            assert client.poll() == 0

    client = world.client(on_message=on_message)
    client.send(b"x")
    world.run(client, lambda: len(answers) == 5)
    assert answers == [b"x", b"x.", b"x..", b"x...", b"x...."]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ingress_endpoints": []}, "ingress_endpoints is empty"),
        ({"ingress_endpoints": ["localhost"]}, "'localhost', must be host:port"),
        ({"ingress_endpoints": ["a:99999"]}, "must be host:port"),
        (
            {"ingress_endpoints": ["a:1"], "keep_alive_interval_s": 0},
            "keep_alive_interval_s=0: must be",
        ),
        ({"ingress_endpoints": ["a:1"], "ingress_channel": "aeron:ipc"}, "must be empty for an IPC ingress"),
        ({"ingress_endpoints": ["a:1"], "egress_channel": "udp://x"}, "must begin with aeron:udp or aeron:ipc"),
    ],
)
def test_mistakes_in_the_settings_are_one_clear_line(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        names = [field.name for field in fields(ClientSettings) if field.name in options]
        settings = ClientSettings(**{name: options.pop(name) for name in names})
        ClusterClient(**options, settings=settings)


# asyncio


def run_async(
    world: SessionWorld, scenario: Callable[[AsyncClusterClient], Coroutine[Any, Any, T]], **options: Any
) -> T:
    """Runs `scenario(client)` with an AsyncClusterClient of the world."""
    _, transport = world.client_process()

    async def main() -> T:
        async with AsyncClusterClient(
            world.endpoints, "aeron:udp?endpoint=10.0.1.1:0", transport=transport, **options
        ) as client:
            return await asyncio.wait_for(scenario(client), 30)

    return asyncio.run(main())


def test_asyncio_sends_and_iterates(world: SessionWorld) -> None:
    async def scenario(client: AsyncClusterClient) -> list[bytes] | None:
        for number in range(20):
            assert await client.send(b"%d" % number) > 0
        received = []
        async for message in client:
            received.append(message.payload)
            if len(received) == 20:
                return received
        return None

    assert run_async(world, scenario) == [b"%d" % number for number in range(20)]


def test_asyncio_ends_the_iteration_when_it_is_closed(world: SessionWorld) -> None:
    async def scenario(client: AsyncClusterClient) -> list[bytes]:
        async def drain() -> list[bytes]:
            return [message.payload async for message in client]

        task = asyncio.create_task(drain())
        await client.send(b"one")
        while not world.leader.received or world.leader.received[-1][0] != "SessionMessageHeader":
            await asyncio.sleep(0)
        client.close()
        return await task

    assert run_async(world, scenario) in ([], [b"one"])


def test_asyncio_raises_what_the_cluster_says(world: SessionWorld) -> None:
    async def scenario(client: AsyncClusterClient) -> bool:
        request = world.sessions[1]
        world.leader.send_event(request.response_channel, 1, request.correlation_id, EventCode.CLOSED, "TIMEOUT")
        with pytest.raises(SessionClosedError, match="TIMEOUT"):
            async for _ in client:
                pass
        with pytest.raises(SessionClosedError):
            await client.send(b"late")
        return True

    assert run_async(world, scenario)


def test_asyncio_refused_session(world: SessionWorld) -> None:
    world.refusal = EventCode.ERROR, "concurrent session limit"

    async def scenario(client: AsyncClusterClient) -> None:
        raise AssertionError("must not open")

    with pytest.raises(SessionRejectedError, match="concurrent session limit"):
        run_async(world, scenario)


def test_asyncio_reads_no_further_than_it_may_keep(world: SessionWorld) -> None:
    async def scenario(client: AsyncClusterClient) -> list[bytes] | None:
        world.leader.echoes = False
        for number in range(50):
            world.leader.send_message(1, b"%d" % number)
        await client.send(b"go")
        received = []
        async for message in client:
            assert len(client._messages) <= 7
            received.append(message.payload)
            if len(received) == 50:
                return received
        return None

    assert run_async(world, scenario, waiting_messages_max=8) == [b"%d" % number for number in range(50)]


def test_over_real_sockets_with_a_driver_of_its_own(tmp_path: Path) -> None:
    """The client embeds its driver and waits on its sockets; the member runs beside it in this thread."""
    world = RealWorld(tmp_path)
    inbox = Inbox()
    try:
        client = ClusterClient(world.endpoints, **inbox.options(), wait=False)
        try:
            assert client.descriptor is not None
            world.run(client, lambda: client.is_connected)
            for number in range(200):
                while client.offer(b"%d" % number) < 0:
                    world.step()
                    client.poll()
            world.run(client, lambda: len(inbox.messages) == 200)
            assert [int(payload) for _, _, payload in inbox.messages] == list(range(200))
        finally:
            client.close()
    finally:
        world.close()
    assert not os.path.exists(client._transport.client.directory)


def test_with_the_driver_of_somebody_else(tmp_path: Path) -> None:
    """`aeron_dir`: here the member's own driver, run between the polls."""
    world = RealWorld(tmp_path)
    inbox = Inbox()
    stepper = threading.Thread(target=world.step_until_stopped)
    stepper.start()
    try:
        with ClusterClient(world.endpoints, aeron_dir=world.members[0].driver.directory, **inbox.options()) as client:
            assert client.descriptor is None
            client.send(b"hello")
            while not inbox.messages:
                if client.poll() == 0:
                    client.park(0.001)
        assert inbox.messages == [(1, 77, b"hello")]
    finally:
        world.stopping = True
        stepper.join()
        world.close()


def test_answers_of_members_of_earlier_releases_have_no_number(world: SessionWorld) -> None:
    """They end before it, and the payload follows."""
    client = world.client()
    found: list[tuple[int, bytes, int]] = []
    client._loop.set_on_answer(lambda *answer: found.append((answer[1], *answer[4:])))
    channel = world.sessions[client.session_id].response_channel
    head = ordo_codecs.ANSWER.encode(
        cluster_session_id=client.session_id, number=1, log_position=640, status=0, sequence=7
    )
    block_length, *ids, _ = struct.unpack_from("<4H", head)
    shorter = struct.pack("<4H", block_length - 8, *ids, 1) + head[8:-8]
    for message in (head + b"new", shorter + b"old", shorter, head[:-1]):
        world.leader.send(channel, message)
    world.leader.send(channel, head + b"end")
    world.run(client, lambda: found[-1:] == [(1, b"end", 7)])
    assert found[:3] == [(1, b"new", 7), (1, b"old", 0), (1, b"", 0)]
    client.close()
