"""What a node's archive offers to others: the committed log and its snapshots, read-only."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from archive.control.access import ReadOnlyAccess
from archive.control.conductor import ControlConductor
from archive.control.config import ControlConfig
from cluster.wire.streams import LOG_STREAM_ID

if TYPE_CHECKING:
    from random import Random

    from archive.archive import Archive
    from runtime.counters import Counter
    from transport.client import TransportClient


class CommittedLogAccess(ReadOnlyAccess):
    """Hides whatever of the log is not committed, since it may still be truncated."""

    def __init__(self, archive: Archive, commit_position: Counter) -> None:
        self._archive = archive
        self._commit_position = commit_position

    def replay_limit(self, recording_id: int) -> Counter | None:
        is_log = self._archive.descriptor(recording_id).stream_id == LOG_STREAM_ID
        return self._commit_position if is_log else None


def serve_archive(
    archive: Archive,
    client: TransportClient,
    random: Random,
    *,
    endpoint: str,
    commit_position: Counter,
    replays_max: int,
    on_error: Callable[[Exception], object],
) -> ControlConductor:
    """The agent that serves a node's archive at its member's archive endpoint; not started yet."""
    config = ControlConfig(
        control_channel=f"aeron:udp?endpoint={endpoint}|alias=archive",
        local_control_channel=None,
        replays_max=replays_max,
    )
    access = CommittedLogAccess(archive, commit_position)
    return ControlConductor(archive, client, random, config, access=access, on_error=on_error)
