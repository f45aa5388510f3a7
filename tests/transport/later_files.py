"""Files of logs that are made when a test says so, in the one thread of a simulated driver."""

from __future__ import annotations

from collections import deque

from ordo.transport.driver.conducting.log_files import FileRequest, LogFiles
from tests.transport.driver_world import Node


class LaterFiles(LogFiles):
    """Makes what is asked for when told to, in order; then the driver hears of it, as from its thread."""

    def __init__(self, node: Node) -> None:
        super().__init__(node.memory, is_threaded=False)
        self.driver = node.driver
        self.asked: deque[FileRequest] = deque()
        node.driver.context.logs.files = self

    def make(self, request: FileRequest) -> None:
        self.asked.append(request)

    def finish(self, count: int = 1) -> None:
        """Make the files that were asked for first."""
        for _ in range(min(count, len(self.asked))):
            super().make(self.asked.popleft())
            self.driver.on_logs_made()

    def flush(self) -> None:
        self.finish(len(self.asked))
