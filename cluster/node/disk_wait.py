"""Waits after a node has ended because its disk was full, and starts the node again when there is room.

The marks of the disk (cluster.module.log.disk_space_watch) stop a member before that; something else can still fill
the disk
between two looks at it. What was acknowledged is on the disk, so that the node starts from there as after a crash.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ordo.cluster.monitoring.observation import free_bytes
from ordo.runtime.end_signals import EndSignals
from ordo.runtime.errors import StorageFullError
from ordo.runtime.native.clock import SystemClock

if TYPE_CHECKING:
    from ordo.cluster.settings.config import NodeSettings

WAIT_NS_MIN = 1_000_000_000
LOOK_INTERVAL_S = 0.1


def is_want_of_room(error: BaseException, data_dir: Path) -> bool:
    """Return whether a node ended for want of room below its `data_dir`.

    Shared memory that is full is another matter.
    """
    return isinstance(error, StorageFullError) and str(data_dir) in error.message


class DiskWait:
    """The wait of one process. SIGTERM and SIGINT end it."""

    def __init__(self, config: NodeSettings, announce: Callable[..., object]) -> None:
        """`announce(event, **context)` writes a line into the log of the process."""
        self._folder = config.node.data_dir
        self._high_bytes = config.archive.disk_high_bytes
        self._announce = announce
        self._member_id = config.node.member_id

    def wait(self, error: StorageFullError) -> bool:
        """Return True once there is room again, False when the process is told to end."""
        self._announce(
            "node.waits",
            member_id=self._member_id,
            reason=error.message,
            detail=f"the node starts again when {self._high_bytes >> 20} MiB are free for {self._folder} (disk_high)",
        )
        end = EndSignals()
        clock = SystemClock()
        earliest_ns = clock.now() + WAIT_NS_MIN
        while not end.wait(LOOK_INTERVAL_S):
            if clock.now() >= earliest_ns and free_bytes(self._folder) >= self._high_bytes:
                return True
        return False
