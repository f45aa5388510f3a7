"""Services that a container process runs in tests."""

from pathlib import Path
from typing import Any

from ordo.service_api.service import ClusteredService


class Echo(ClusteredService):
    """Answers what it gets; `raise` raises; a file named in `mark <path>` is written at the end."""

    mark = ""

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> None:
        if payload == b"raise":
            raise ValueError("the order book is empty")
        if payload.startswith(b"mark "):
            self.mark = payload[5:].decode()
        session.offer(payload)

    def on_terminate(self, cluster: Any) -> None:
        if self.mark:
            Path(self.mark).write_text(f"position={cluster.log_position}")


class NoService:
    """Not derived from ClusteredService."""


class Unmade(ClusteredService):
    def __init__(self) -> None:
        raise RuntimeError("no configuration found")

    def on_session_message(self, *arguments: object) -> None:
        return None
