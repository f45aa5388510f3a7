"""Three members of Aeron's cluster in Java on loopback, with its best settings for throughput and latency."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path

from benchmarks.pairs import End
from benchmarks.transport import java_command
from ordo.deploy.launcher import find_ports
from ordo.runtime.closing import Closing

PORTS_PER_MEMBER = 7
START_TIMEOUT_S = 60.0


class JavaCluster(Closing):
    """Starts when it is made. `sync_level` is Aeron's: 0 leaves data to the page cache, 1 syncs it first.

    `idle` is what threads without work do: yield, or backoff (spin, yield, then park for up to a millisecond).
    """

    def __init__(self, sync_level: int, mtu_bytes: int, idle: str) -> None:
        self._idle = idle
        self._sync_level = sync_level
        self._mtu_bytes = mtu_bytes
        self._ports = find_ports(6)  # eight ports in a row each: more than a member has
        self._root = Path(tempfile.mkdtemp(prefix="ordo-bench-"))
        self._memory = Path(tempfile.mkdtemp(prefix="ordo-bench-", dir="/dev/shm"))
        self._stack = ExitStack()
        for folder in (self._root, self._memory):
            self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def _ports_of(self, member_id: int) -> list[int]:
        return [self._ports[2 * member_id] + offset for offset in range(PORTS_PER_MEMBER)]

    @property
    def ingress_endpoints(self) -> str:
        return ",".join(f"{member_id}=127.0.0.1:{self._ports_of(member_id)[0]}" for member_id in range(3))

    def _members(self) -> str:
        """As Aeron writes them: ingress, consensus, log, catch-up and archive of each."""
        return "|".join(
            f"{member_id}," + ",".join(f"127.0.0.1:{port}" for port in self._ports_of(member_id)[:5])
            for member_id in range(3)
        )

    def _start(self) -> None:
        nodes = []
        for member_id in range(3):
            nodes.append(
                End(
                    [
                        *java_command("ClusterNode"),
                        str(member_id),
                        str(self._root / str(member_id)),
                        str(self._memory / str(member_id)),
                        self._members(),
                        f"127.0.0.1:{self._ports_of(member_id)[5]}",
                        str(self._sync_level),
                        str(self._mtu_bytes),
                        self._idle,
                    ]
                )
            )
            self._stack.callback(nodes[-1].close)
        for node in nodes:
            node.await_line("ready", START_TIMEOUT_S)

    def client(self) -> End:
        """A session in a process of its own, connected to the leader."""
        end = End(
            [*java_command("ClusterLoad"), str(self._memory / "client"), self.ingress_endpoints, str(self._mtu_bytes)]
        )
        self._stack.callback(end.close)
        end.await_line("ready", START_TIMEOUT_S)
        return end

    def close(self) -> None:
        self._stack.close()
