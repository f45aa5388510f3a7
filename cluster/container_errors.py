"""What goes wrong in a service container, in the error log of its mark file (cluster-consensus.md §17.3)."""

from __future__ import annotations

import traceback

from cluster.mark_file import ACTIVITY_INTERVAL_NS, ComponentType, MarkFile, container_mark_file_name
from runtime.clock import Clock
from runtime.error_log import DistinctErrorLog
from runtime.memory import MemoryProvider


class ContainerErrors:
    """The container's mark file and its distinct error log. Raises StorageInUseError while another one is alive."""

    def __init__(
        self,
        memory: MemoryProvider,
        cluster_dir: str,
        clock: Clock,
        *,
        service_id: int,
        member_id: int,
        service_name: str,
    ) -> None:
        self._clock = clock
        self._next_activity_ns = 0
        self._mark_file = MarkFile.create(
            memory,
            f"{cluster_dir}/{container_mark_file_name(service_id)}",
            clock.epoch_ms(),
            component_type=ComponentType.CONTAINER,
            service_stream_id=104,
            consensus_module_stream_id=105,
            member_id=member_id,
            service_id=service_id,
            cluster_id=0,
            service_name=service_name,
        )
        self._log: DistinctErrorLog | None = DistinctErrorLog(self._mark_file.error_log_memory, clock)

    def record(self, error: BaseException, where: str) -> None:
        """Keeps an error with its traceback; one that was met before is counted. Nothing once closed."""
        if self._log is not None:
            self._log.record(f"{where}\n{''.join(traceback.format_exception(error)).rstrip()}")

    def work(self, now_ns: int) -> None:
        if now_ns >= self._next_activity_ns and self._log is not None:
            self._next_activity_ns = now_ns + ACTIVITY_INTERVAL_NS
            self._mark_file.set_activity(self._clock.epoch_ms())

    def close(self) -> None:
        """Again is harmless."""
        self._log = None
        self._mark_file.close()
