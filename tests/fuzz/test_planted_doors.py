"""Doors to what lives on see what happens when a check is missing, by the first program that reaches it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import ordo.archive.archive
from ordo.archive.client.replay import Replay
from ordo.archive.control.session import ControlSession
from ordo.archive.protocol import codecs as archive_codecs
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.module.members.member_proofs import MemberProofs
from ordo.cluster.module.sessions.sessions import OpenSessions
from ordo.cluster.wire import codecs, ordo_codecs
from tests.fuzz import answer_doors, client_doors, live_doors, member_doors, recording_doors
from tests.fuzz.driver_doors import Finding
from tests.fuzz.engine import Step, pack


def say(kind: int, node: int, messages: tuple[Any, ...], message: Any, *more: int) -> Step:
    return kind, bytes([node, messages.index(message), *more])


def planted(door: Any, patch: Callable[[], None], steps: list[Step], found: str) -> None:
    """Nothing is found until the check is taken out."""
    made = door()
    try:
        made.run(pack(steps))
        patch()
        with pytest.raises(Finding, match=found):
            made.run(pack(steps))
    finally:
        if hasattr(made, "close"):
            made.close()


def test_anybody_may_close_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [say(0, 0, member_doors.INGRESS, codecs.SESSION_CLOSE_REQUEST), (4, b"\0\2")]
    planted(
        member_doors.SessionDoor,
        lambda: monkeypatch.setattr(OpenSessions, "is_owner", lambda *_: True),
        steps,
        "the client|session",
    )


def test_anybody_is_believed_to_be_a_member(monkeypatch: pytest.MonkeyPatch) -> None:
    next_term = (1, 0)
    steps = [say(1, 0, member_doors.CONSENSUS, codecs.APPEND_POSITION, *next_term), (4, b"\0\3")]
    planted(
        member_doors.MemberDoor,
        lambda: monkeypatch.setattr(MemberProofs, "admits", lambda *_: True),
        steps,
        "another leader",
    )


def test_a_recording_is_cut_within_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    beside = (0, 0, 0, 0, 0, 0, 1, 128)  # session, correlation, recording: the first known; a bit before its end
    index = recording_doors.REQUESTS.index(archive_codecs.TRUNCATE_RECORDING_REQUEST)
    planted(
        recording_doors.RecordingDoor,
        lambda: monkeypatch.setattr(ordo.archive.archive, "check_truncation", lambda *_: None),
        [(0, bytes([index, *beside]))],
        "DAMAGED",
    )


def test_the_live_stream_goes_wherever_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [(0, bytes([3])), (10, b"\2"), (7, b"\1"), (10, b"\1")]
    planted(
        live_doors.LiveDoor, lambda: monkeypatch.setattr(ControlSession, "is_at", lambda *_: True), steps, "not asked"
    )


def test_a_replay_begins_where_its_archive_likes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked_from_64, begins_at_0, wait = (2, b"\2"), (6, b"\0"), (10, b"\1")
    consent = (3, bytes([0, 0, 0, 0, 0, 0, 0, 1]))  # relevant_id: the session of the replay
    steps = [(0, b""), wait, asked_from_64, wait, begins_at_0, wait, consent, (7, b"\0"), wait]
    planted(
        answer_doors.AnswerDoor,
        lambda: monkeypatch.setattr(Replay, "_begins_as_asked", lambda *_: True),
        steps,
        "what was before them at 64",
    )


def test_a_stranger_sends_half_a_message_to_a_client(monkeypatch: pytest.MonkeyPatch) -> None:
    def take(client: ClusterClient, message: bytes, image: Any) -> None:
        found = ordo_codecs.decode_any(message)
        assert found is not None
        client._take_event(*found, image)

    half = bytes([0, client_doors.EGRESS.index(codecs.SESSION_EVENT), 4, 20])
    planted(
        client_doors.ClientDoor, lambda: monkeypatch.setattr(ClusterClient, "_on_event", take), [(1, half)], "is cut"
    )
