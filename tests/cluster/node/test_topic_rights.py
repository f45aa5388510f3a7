"""Roles that name topics: what their holders read of a node's archive, and what they do not (docs/SECURITY.md)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ordo.archive.client import control_requests
from ordo.archive.client.control_requests import Call
from ordo.archive.control.access import AccessPolicy
from ordo.archive.protocol.codes import ErrorCode
from ordo.cluster.node.archive_service import CommittedLogBounds, MemberChannels, TopicRights
from ordo.cluster.wire.streams import FEED_STREAM_ID, LOG_STREAM_ID, feed_alias
from ordo.runtime.errors import ArchiveError, ConfigurationError
from ordo.runtime.native.counters import local_counter
from ordo.runtime.security.authentication import has_topic, rights_of_roles, topics_of_roles
from ordo.runtime.security.tokens import Token, TokenAuthenticator, hash_token, new_token
from tests.archive.control_world import ControlWorld, Server

TOKENS = {"topic:trades": new_token(), "topic:desk7.*": new_token(), "topics": new_token(), "log": new_token()}
RECORDED = (None, "trades", "desk7.fills", "desk8.fills")
"""The topics of the recordings, in their order; the first one is the log."""
ALLOWED = {"topic:trades": {1}, "topic:desk7.*": {2}, "topics": {1, 2, 3}, "log": {0, 1, 2, 3}}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ControlWorld]:
    world = ControlWorld(tmp_path)
    yield world
    world.close()


def serve(world: ControlWorld) -> Server:
    """A node's archive with the log and three topics."""
    gate = TokenAuthenticator(
        Token(role, hash_token(token), rights_of_roles([role]), topics_of_roles([role]))
        for role, token in TOKENS.items()
    )
    archive: Any = None  # made by the server, which wants to know what it may give first
    bounds = CommittedLogBounds(archive, local_counter(1 << 20), 20, 20)
    access = AccessPolicy(TopicRights(gate), MemberChannels(tuple), bounds)
    server = world.server(access=access, sessions_max=8)
    bounds._archive = server.archive
    for recording_id, topic in enumerate(RECORDED):
        stream_id = LOG_STREAM_ID if topic is None else FEED_STREAM_ID + recording_id
        channel = "aeron:ipc?term-length=64k" + ("" if topic is None else f"|alias={feed_alias(topic)}")
        server.archive.record_subscription(channel, stream_id)
        publication = server.node.client.add_exclusive_publication(channel, stream_id)
        world.until(partial(server.archive.recording, recording_id))
        world.send(publication, [b"for whom it is"])
    return server


def reads_of(recording_id: int) -> list[Call[Any]]:
    channel = "aeron:udp?endpoint=10.0.0.9:9"
    return [
        control_requests.start_position(recording_id),
        control_requests.stop_position(recording_id),
        control_requests.recording_position(recording_id),
        control_requests.start_replay(recording_id, channel, 6, position=0, length=None),
    ]


@pytest.mark.parametrize("role", TOKENS)
def test_who_has_a_role_for_topics_reads_these_and_nothing_else(world: ControlWorld, role: str) -> None:
    server = serve(world)
    caller = world.remote_caller(server, credentials=TOKENS[role].encode())
    refused = 0
    for recording_id in range(len(RECORDED)):
        for call in reads_of(recording_id):
            code = 0
            try:
                caller.call(call)
            except ArchiveError as error:
                code = error.code
            assert (code == ErrorCode.UNAUTHORISED_ACTION) == (recording_id not in ALLOWED[role]), call.message.name
            refused += code == ErrorCode.UNAUTHORISED_ACTION
    warned = [str(error) for error in server.errors if getattr(error, "code", None) == ErrorCode.UNAUTHORISED_ACTION]
    assert len(warned) == refused
    if role == "topic:trades":
        assert any("topic desk7.fills is refused" in text and "log or topic:desk7.fills" in text for text in warned)
    assert len(caller.call(control_requests.list_recordings(count=10))) == len(RECORDED)


@pytest.mark.parametrize("role", TOKENS)
def test_how_long_the_log_is_is_told_whoever_reads_a_topic(world: ControlWorld, role: str) -> None:
    caller = world.remote_caller(serve(world), credentials=TOKENS[role].encode())
    for recording_id, topic in enumerate(RECORDED):
        call = control_requests.max_recorded_position(recording_id)
        if recording_id in ALLOWED[role] or topic is None:
            assert caller.call(call) > 0
        else:
            with pytest.raises(ArchiveError) as error:
                caller.call(call)
            assert error.value.code == ErrorCode.UNAUTHORISED_ACTION


def test_names_of_topics_in_roles() -> None:
    roles = ["ingress", "topic:trades", "topic:desk7.*"]
    assert topics_of_roles(roles) == ("trades", "desk7.*")
    assert topics_of_roles([*roles, "topics"]) == ("*",)
    found = [
        topic
        for topic in ("trades", "trades2", "desk7.", "desk7.fills", "desk70")
        if has_topic(("trades", "desk7.*"), topic)
    ]
    assert found == ["trades", "desk7.", "desk7.fills"]
    assert has_topic(("*",), "anything") and not has_topic((), "trades")
    for wrong in ("topic:", "topic:a b", "topic:*a", "topic:" + "x" * 65):
        with pytest.raises(ConfigurationError, match="after topic: must come"):
            rights_of_roles([wrong])
