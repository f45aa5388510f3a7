"""A service that prints and logs with each message."""

from __future__ import annotations

import sys

from ordo.runtime.reporting.logging import get_logger
from ordo.service_api.cluster import ClientSession
from ordo.service_api.native import Header
from ordo.starter.counter import Counter


class Talker(Counter):
    """Adds up, and says so everywhere."""

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        print(f"adds {payload!r}", flush=True)
        print(f"adds {payload!r}", file=sys.stderr)
        get_logger().info("talker.adds", number=payload.decode())
        return super().on_session_message(session, timestamp, payload, header)
