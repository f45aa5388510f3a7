"""A network of its own for every host, joined by a bridge, in which datagrams get lost and links are cut.

Nothing of it is in the machine's own network: hosts and bridge live in namespaces named after this process, and all
networks use the same addresses. nftables drops at the receiver, so a link can be cut in one direction only.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

CLONE_NEWNET = 0x40000000
NAMES = "ordo-faults"
FOLDER = Path("/run/netns")
_numbers = itertools.count()


class Network:
    """`host_count` hosts; host i has the address 10.99.0.(i + 1)."""

    def __init__(self, host_count: int) -> None:
        remove_abandoned()
        self.hosts = range(host_count)
        self._prefix = f"{NAMES}-{os.getpid()}-{next(_numbers)}"
        self._blocked: set[tuple[int, int]] = set()
        self._loss_percent: dict[int, int] = {}
        self._made: list[str] = []
        try:
            self._build()
        except BaseException:
            self.close()
            raise

    def _build(self) -> None:
        hub = self._make("hub", ["link add bridge type bridge", "link set bridge up"])
        for host in self.hosts:
            name = self._make(
                str(host),
                [
                    f"link add eth0 type veth peer name host{host} netns {hub}",
                    f"addr add {self.address(host)}/24 dev eth0",
                    "link set eth0 up",
                ],
            )
            run(["ip", "-n", hub, "-batch", "-"], f"link set host{host} master bridge\nlink set host{host} up\n")
            run(["nsenter", f"--net={FOLDER / name}", "nft", "-f", "-"], RULES)

    def _make(self, name: str, commands: Sequence[str]) -> str:
        full = f"{self._prefix}-{name}"
        run(["ip", "netns", "add", full])
        self._made.append(full)
        run(["ip", "-n", full, "-batch", "-"], "\n".join(["link set lo up", *commands]) + "\n")
        return full

    def address(self, host: int) -> str:
        return f"10.99.0.{host + 1}"

    def prefix(self, host: int) -> list[str]:
        """Words before a command that make it run on a host."""
        return ["nsenter", f"--net={self._path(host)}", "--"]

    def _path(self, host: int) -> Path:
        return FOLDER / f"{self._prefix}-{host}"

    @contextmanager
    def enter(self, host: int) -> Iterator[None]:
        """The sockets this thread opens, and the threads and processes it starts, are on a host."""
        libc = ctypes.CDLL(None, use_errno=True)
        with open("/proc/thread-self/ns/net") as home, self._path(host).open() as there:
            if libc.setns(there.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), f"cannot enter {self._path(host)}")
            try:
                yield
            finally:
                assert libc.setns(home.fileno(), CLONE_NEWNET) == 0

    # Faults

    def block(self, source: int, destination: int) -> None:
        """What `source` sends does not arrive at `destination`."""
        self._blocked.add((source, destination))
        self._apply([destination])

    def partition(self, groups: Iterable[Sequence[int]]) -> None:
        """Nothing passes between hosts of different groups; hosts of no group reach everybody."""
        sides = [set(group) for group in groups]
        for side in sides:
            for other in sides:
                if other is not side:
                    self._blocked |= {(a, b) for a in side for b in other}
        self._apply(self.hosts)

    def lose(self, percent: int, hosts: Sequence[int] | None = None) -> None:
        """Hosts (default: all) lose so much of what is sent to them, at random."""
        chosen = self.hosts if hosts is None else hosts
        self._loss_percent |= dict.fromkeys(chosen, percent)
        self._apply(chosen)

    def heal(self) -> None:
        self._blocked.clear()
        self._loss_percent.clear()
        self._apply(self.hosts)

    def dropped(self) -> int:
        """How many datagrams the rules have dropped so far."""
        total = 0
        for host in self.hosts:
            listed = run([*self.prefix(host), "nft", "list", "counter", "inet", "faults", "dropped"]).split()
            total += int(listed[listed.index("packets") + 1])
        return total

    def _apply(self, hosts: Iterable[int]) -> None:
        for host in hosts:
            sources = [self.address(source) for source, destination in sorted(self._blocked) if destination == host]
            rules = [f"ip saddr {{ {', '.join(sources)} }}"] if sources else []
            if percent := self._loss_percent.get(host, 0):
                rules.append(f"meta l4proto udp numgen random mod 100 < {percent}")
            lines = [f"add rule inet faults input {rule} counter name dropped drop" for rule in rules]
            text = "\n".join(["flush chain inet faults input", *lines]) + "\n"
            run([*self.prefix(host), "nft", "-f", "-"], text)

    def close(self) -> None:
        for name in self._made:
            run(["ip", "netns", "del", name])
        self._made.clear()


RULES = """
table inet faults {
    counter dropped { }
    chain input {
        type filter hook input priority 0;
    }
}
"""


def run(command: Sequence[str], text: str = "") -> str:
    """What a command prints. Raises AssertionError with what it complains of."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.strip()}\n{text}"
    return done.stdout


def remove_abandoned() -> None:
    """What test processes that were killed left behind."""
    for path in FOLDER.glob(f"{NAMES}-*"):
        if not Path("/proc", path.name.removeprefix(f"{NAMES}-").split("-")[0]).exists():
            run(["ip", "netns", "del", path.name])
