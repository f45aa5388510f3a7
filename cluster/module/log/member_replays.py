"""Replays of recordings to other members that lack them; the archive publishes them natively."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ordo.runtime.errors import OrdoError

if TYPE_CHECKING:
    from ordo.archive.archive import Archive
    from ordo.archive.replay import Replay
    from ordo.cluster.wire.members import Member


class MemberReplays:
    """Replays recordings to members: at most one to each, the last one it asked for.

    `what` names the recording in messages.
    """

    def __init__(self, archive: Archive, what: str, alias: str, on_failure: Callable[[str], None]) -> None:
        self._archive = archive
        self._what = what
        self._alias = alias
        self._on_failure = on_failure
        self._replays: dict[int, Replay] = {}

    def start(
        self, member: Member, recording_id: int, position: int, length: int | None, stream_id: int, session_id: int
    ) -> None:
        """Replay to the member's endpoint for catch-ups; `length` in bytes, None: up to the end."""
        former = self._replays.pop(member.id, None)
        if former is not None:
            self._archive.stop_replay(former)
        try:
            self._replays[member.id] = self._archive.replay(
                recording_id,
                position,
                length,
                channel=f"aeron:udp?endpoint={member.catchup}|alias={self._alias}-{member.id}",
                stream_id=stream_id,
                session_id=session_id,
                on_end=self._on_end,
            )
        except OrdoError as error:
            self._on_failure(f"no replay of {self._what} to member {member.id}: {error.message}")

    def _on_end(self, replay: Replay, error: Exception | None) -> None:
        """End a replay. A member that left asks again later; a member that met damage asks another one."""
        self._replays = {key: value for key, value in self._replays.items() if value is not replay}
        if error is not None:
            self._on_failure(f"a replay of {self._what} ended: {error}")
