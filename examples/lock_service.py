"""Locks for programs on many machines: first come, first served; a lock goes on when its holder's session ends.

ordo node --config node.toml --service examples.lock_service:LockService
"""

import json

from ordo import ClientSession, CloseReason, Cluster, ClusteredService, Header, Reject, SnapshotReader, SnapshotWriter


class LockService(ClusteredService):
    """A message is "lock NAME" or "unlock NAME". Who gets a lock is told "NAME TOKEN", at once or when its turn comes.

    The token is the position in the log at which the lock was given, so it grows from holder to holder. A holder shows
    it to whatever the lock protects, which refuses a token below one that it has seen: that keeps out a holder that was
    asleep while its session timed out.
    """

    def __init__(self) -> None:
        self.queues: dict[str, list[int]] = {}
        """Sessions by the name of the lock: the holder, then those that wait."""

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        self.cluster = cluster
        if snapshot is not None:
            self.queues = json.loads(snapshot.read())

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        if session is None:
            return None
        order, _, name = payload.decode(errors="replace").partition(" ")
        if order not in ("lock", "unlock") or not name:
            raise Reject("must be lock NAME or unlock NAME")
        queue = self.queues.get(name, [])
        if (session.id in queue) == (order == "lock"):
            raise Reject(f"{name} is asked for already" if order == "lock" else f"{name} was not asked for")
        if order == "unlock":
            self._leave(name, session.id)
            return None
        self.queues[name] = [*queue, session.id]
        if not queue:
            self._tell_holder(name)
        return None

    def on_session_close(self, session: ClientSession, timestamp: int, close_reason: CloseReason) -> None:
        for name in sorted(self.queues):
            if session.id in self.queues[name]:
                self._leave(name, session.id)

    def _leave(self, name: str, session_id: int) -> None:
        was_holder = self.queues[name][0] == session_id
        self.queues[name].remove(session_id)
        if not self.queues[name]:
            del self.queues[name]
        elif was_holder:
            self._tell_holder(name)

    def _tell_holder(self, name: str) -> None:
        holder = self.cluster.get_client_session(self.queues[name][0])
        if holder is not None:
            holder.offer(f"{name} {self.cluster.log_position}".encode())

    def on_query(self, payload: bytes) -> bytes:
        return json.dumps(self.queues.get(payload.decode(errors="replace"), [])).encode()

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        writer.write(json.dumps(self.queues, sort_keys=True).encode())
