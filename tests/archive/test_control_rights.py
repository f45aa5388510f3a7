"""Clients of an archive that authenticates: who is let in, what roles allow, where responses and replays may go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ordo.archive.client import control_requests
from ordo.archive.client.control_requests import Call
from ordo.archive.control.access import UnicastChannels, full_access
from ordo.archive.inspection.tokens import load_tokens
from ordo.archive.protocol.codes import ErrorCode
from ordo.runtime.errors import ArchiveError, ConfigurationError
from ordo.runtime.security.authentication import Authenticator, Right, SessionProxy
from ordo.runtime.security.tokens import Token, TokenAuthenticator, hash_token, new_token
from tests.archive.control_world import Caller, ControlWorld, Server
from tests.archive.test_control_storage import world
from tests.attacks.gate import ANSWER, PASSWORD, Gate

__all__ = ["world"]
CHANNEL = "aeron:udp?endpoint=10.0.0.1:7001"
READER, WRITER, CLEANER = new_token(), new_token(), new_token()


def authenticator() -> Authenticator:
    return TokenAuthenticator(
        Token(name, hash_token(token), rights)
        for name, token, rights in (
            ("reader", READER, Right.LOG),
            ("writer", WRITER, Right.LOG | Right.RECORD),
            ("cleaner", CLEANER, Right.DELETE),
        )
    )


def try_call(caller: Caller, call: Call[Any]) -> int:
    """The code of the refusal, 0 when there is none."""
    try:
        caller.call(call)
    except ArchiveError as error:
        return error.code
    return 0


def count_of(server: Server, code: ErrorCode) -> int:
    """How many refusals the archive's owner has heard of."""
    return sum(getattr(error, "code", None) == code for error in server.errors)


@pytest.mark.parametrize(
    "credentials",
    [b"", b"reader", READER.encode()[:-1], READER.encode() + b"\n", b"\0" * 5000],
    ids=["none", "a name", "cut", "one byte more", "long"],
)
def test_without_a_token_there_is_no_session(world: ControlWorld, credentials: bytes) -> None:
    server = world.server(access=full_access(authenticator()))
    with pytest.raises(ArchiveError, match="authentication rejected") as refused:
        world.remote_caller(server, credentials=credentials)
    assert refused.value.code == ErrorCode.AUTHENTICATION_REJECTED
    assert count_of(server, ErrorCode.AUTHENTICATION_REJECTED) == 1
    world.until(lambda: server.conductor.sessions == {})


def test_a_session_that_is_not_let_in_is_served_nothing(world: ControlWorld) -> None:
    """Requests are sent in the name of the session before the authenticator has decided, and after it has refused."""
    server = world.server(access=full_access(authenticator()))
    node = world.node("10.0.0.9")
    caller = world.caller(node.client, "aeron:udp?endpoint=10.0.0.1:8010", "aeron:udp?endpoint=10.0.0.9:0")
    world.until(lambda: server.conductor.sessions)
    (session,) = server.conductor.sessions.values()
    publication = caller.session._publication
    assert publication is not None

    def ask() -> bool:
        request = control_requests.start_recording(CHANNEL, 5, local=False, auto_stop=False)
        publication.offer(
            request.message.encode(control_session_id=session.session_id, correlation_id=7, **request.fields)
        )
        return bool(caller.session.error)

    world.until(ask)
    assert list(server.conductor.recordings.subscriptions()) == []


def test_roles_decide_what_is_served(world: ControlWorld) -> None:
    server = world.server(access=full_access(authenticator()))
    reader = world.remote_caller(server, "10.0.0.7", credentials=READER.encode())
    writer = world.remote_caller(server, "10.0.0.8", credentials=lambda: WRITER.encode())
    cleaner = world.remote_caller(server, "10.0.0.9", credentials=CLEANER.encode())
    record = control_requests.start_recording(CHANNEL, 5, local=False, auto_stop=False)
    assert try_call(reader, record) == ErrorCode.UNAUTHORISED_ACTION
    assert try_call(cleaner, record) == ErrorCode.UNAUTHORISED_ACTION
    assert try_call(writer, record) == 0
    publication = server.node.client.add_exclusive_publication(CHANNEL, 5)
    world.until(lambda: publication.is_connected)
    world.send(publication, [b"message"] * 10)
    world.until(lambda: server.archive.recording(0) is not None)
    writing: list[Call[Any]] = [
        control_requests.extend_recording(0, CHANNEL, 5, local=False, auto_stop=False),
        control_requests.stop_recording(CHANNEL, 6),
        control_requests.stop_recording_by_id(9),
        control_requests.replicate(0, "aeron:ipc", replication_channel=CHANNEL),
        control_requests.stop_replication(9),
    ]
    reading: list[Call[Any]] = [
        control_requests.list_recordings(count=10),
        control_requests.describe_recording(0),
        control_requests.max_recorded_position(0),
        control_requests.start_replay(
            0, "aeron:udp?endpoint=10.0.0.7:9", 6, position=0, length=None, limit_counter_id=None
        ),
        control_requests.stop_replay(9),
    ]
    deleting: list[Call[Any]] = [
        control_requests.truncate_recording(9, 0),
        control_requests.purge_recording(9),
        control_requests.detach_segments(9, 0),
        control_requests.delete_detached_segments(9),
        control_requests.purge_segments(9, 0),
        control_requests.attach_segments(9),
        control_requests.migrate_segments(8, 9),
        control_requests.update_channel(9, CHANNEL),
        control_requests.stop_all_replays(9),
    ]
    allowed = {reader: reading, writer: reading + writing, cleaner: deleting}
    before = count_of(server, ErrorCode.UNAUTHORISED_ACTION)
    refused = 0
    for caller, may in allowed.items():
        for call in reading + writing + deleting:
            is_refused = try_call(caller, call) == ErrorCode.UNAUTHORISED_ACTION
            assert is_refused is (call not in may), (call.message.name, caller)
            refused += is_refused
    assert count_of(server, ErrorCode.UNAUTHORISED_ACTION) - before == refused
    assert "principal 'reader'" in str(server.errors[0])


def test_a_challenge_is_answered_by_who_knows_it(world: ControlWorld) -> None:
    gate = Gate()
    gate.rights_of = lambda principal: Right.LOG if principal == b"guest" else Right(0)  # type: ignore[attr-defined]
    server = world.server(access=full_access(gate))  # type: ignore[arg-type]
    with pytest.raises(ArchiveError, match="authentication rejected"):
        world.remote_caller(server, "10.0.0.8", credentials=PASSWORD, on_challenge=lambda challenge: b"wrong")
    caller = world.remote_caller(server, "10.0.0.9", credentials=PASSWORD, on_challenge=lambda challenge: ANSWER)
    assert caller.call(control_requests.list_recordings(count=10)) == []


def test_an_authenticator_that_fails_lets_nobody_in_and_ends_nothing(world: ControlWorld) -> None:
    class Broken(Gate):
        def on_connected_session(self, proxy: SessionProxy, now_ms: int) -> None:
            raise ValueError("a mistake")

    server = world.server(access=full_access(Broken()))  # type: ignore[arg-type]
    with pytest.raises(ArchiveError):
        world.remote_caller(server, credentials=PASSWORD, message_timeout_s=2.0)
    assert any("a mistake" in str(error) for error in server.errors)
    assert server.conductor.sessions == {}


def test_one_host_does_not_take_all_sessions_by_knocking(world: ControlWorld) -> None:
    class Undecided(Gate):
        def on_connected_session(self, proxy: SessionProxy, now_ms: int) -> None:
            if proxy.session_id in self.known:
                proxy.authenticate(b"guest")

    gate = Undecided()
    gate.rights_of = lambda principal: Right.LOG  # type: ignore[attr-defined]
    server = world.server(access=full_access(gate), sessions_max=8)  # type: ignore[arg-type]
    stranger = world.node("10.0.0.66")
    for _ in range(8):
        world.caller(stranger.client, "aeron:udp?endpoint=10.0.0.1:8010", "aeron:udp?endpoint=10.0.0.66:0")
    world.until(lambda: any("turned away" in str(error) for error in server.errors))
    assert len(server.conductor.sessions) == 4
    caller = world.remote_caller(server, "10.0.0.9", credentials=PASSWORD)
    assert caller.call(control_requests.list_recordings(count=10)) == []


@pytest.mark.parametrize(
    "channel",
    [
        "aeron:udp?endpoint=10.0.0.5:4000|session-id=77",
        "aeron:udp?control=10.0.0.1:4000|control-mode=dynamic",
        "aeron:udp?endpoint=10.0.0.5:4000|tags=1",
        "aeron:udp?endpoint=224.20.30.39:4000|interface=localhost",
        "aeron:udp?endpoint=10.0.0.5:0",
        "aeron-spy:aeron:udp?endpoint=10.0.0.5:4000",
        "aeron:ipc",
    ],
)
def test_a_response_channel_of_an_owned_archive_names_an_address_and_nothing_else(channel: str) -> None:
    channels = UnicastChannels()
    with pytest.raises(ArchiveError) as refused:
        channels.response_channel(channel, 20, 5)
    assert refused.value.code == ErrorCode.UNAUTHORISED_ACTION


def test_a_response_channel_may_name_the_session_of_its_own_stream_only() -> None:
    channels = UnicastChannels()
    asked = "aeron:udp?endpoint=10.0.0.5:4000|session-id=-5|interface=10.0.0.5|mtu=1408|so-sndbuf=1g"
    assert channels.response_channel(asked, 20, -5) == "aeron:udp?endpoint=10.0.0.5:4000|session-id=-5|mtu=1408"


def test_a_file_of_tokens_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    with pytest.raises(ConfigurationError, match="cannot read"):
        load_tokens(file)
    file.write_text(f'[[tokens]]\nprincipal = "a"\nhash = "{hash_token(READER)}"\nroles = ["ingress"]\n')
    with pytest.raises(ConfigurationError, match="'log', 'record' or 'delete'"):
        load_tokens(file)
    file.write_text("tokens = []\n")
    with pytest.raises(ConfigurationError, match="at least 1"):
        load_tokens(file)
    file.write_text(f'[[tokens]]\nprincipal = "a"\nhash = "{hash_token(READER)}"\nroles = ["log", "delete"]\n')
    assert load_tokens(file).rights_of(b"a") == Right.LOG | Right.DELETE
