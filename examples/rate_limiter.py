"""One rate limit for all servers: a bucket of tokens for each key, which fills with time.

ordo node --config node.toml --service examples.rate_limiter:RateLimiter
"""

import json

from ordo import ClientSession, Cluster, ClusteredService, Header, Reject, SnapshotReader, SnapshotWriter, TimeUnit

TOKENS_MAX = 10
REFILL_MS = 100
"""A bucket gets one token more in so much time."""


class RateLimiter(ClusteredService):
    """A message is a key. The answer is "0" where it may go on, else in how many milliseconds to ask again.

    Time is the cluster's: the time stamp of the message, in the log. So every member decides alike, also when it
    executes the log again. A bucket is remembered as the time from which on it is full: one number, no rounding.
    """

    def __init__(self) -> None:
        self.full_from: dict[str, int] = {}

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        self.cluster = cluster
        if snapshot is not None:
            self.full_from = json.loads(snapshot.read())

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        try:
            key = payload.decode()
        except UnicodeDecodeError:
            raise Reject("a key must be UTF-8") from None
        unit = self.cluster.time_unit
        assert unit is not None, "every message is in a term, whose first record names it"
        refill = unit.duration(milliseconds=REFILL_MS)
        full_from = max(self.full_from.get(key, 0), timestamp) + refill
        wait_ns = unit.to_ns(full_from - timestamp - TOKENS_MAX * refill)
        if wait_ns > 0:
            return str(-(-wait_ns // 1_000_000)).encode()
        self.full_from[key] = full_from
        return b"0"

    def on_time_unit(self, former: TimeUnit, unit: TimeUnit) -> None:
        self.full_from = {key: former.rescale(time, unit) for key, time in self.full_from.items()}

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        writer.write(json.dumps(self.full_from, sort_keys=True).encode())
