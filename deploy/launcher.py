"""A whole cluster on one machine: node processes on free loopback ports, with their data below one folder.

with LocalCluster("examples.counter:Counter") as cluster:
    leader = cluster.await_leader()
    cluster.kill(leader)
    cluster.await_leader()
    cluster.restart(leader)
"""

from __future__ import annotations

import atexit
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Literal, TypeVar

import tomlkit

from ordo.cluster.monitoring.counters import counter_value, leader_progress
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.runtime.children import ChildProcess
from ordo.runtime.errors import ClusterTimeoutError, ConfigurationError, ForkedError, OrdoError
from ordo.runtime.processes import is_process_held

ROOT = Path(__file__).parents[2]
PORTS_PER_MEMBER = 5
VOTERS_MAX = 7
"""More are not listed in the file of a member: they have no vote, and the log names them."""
PORTS = range(20_000, 32_000, 8)  # below the range from which the system gives out ports of its own
POLL_INTERVAL_S = 0.02
HOLD_INTERVAL_S = 0.001
STOP_TIMEOUT_S = 10.0
SHARED_MEMORY = Path("/dev/shm")

ServiceMode = Literal["process", "inline"]
SyncMode = Literal["commit", "none"]
Value = str | int | float | bool
Table = Mapping[str, Value | Sequence[str]]
T = TypeVar("T")


class NodeFailedError(OrdoError):
    """A node process ended by itself; the message holds the end of its log."""


class LocalCluster:
    """`member_count` nodes of one service. `cluster` and `node` hold further settings of those tables of node.toml.

    Files are below `root` (a new temporary folder when None): `<member id>/` data, `<member id>.toml` configuration,
    `<member id>.log` output of node and service. `close` stops everything and removes `root` unless `keep`.
    Members in other networks than loopback have their `hosts`; `prefixes` are words put before a command, which end in
    executing it. `ports` are the members' first ports, five in a row each, instead of any that are free; raises
    ConfigurationError when one is taken.
    `encrypted`: every node has a key, and there is one for clients (`client_keys`).
    """

    patience: ClassVar[float] = 1.0
    """Times the limits of all waits of this class: more on a machine that is slow or busy."""
    spawn: ClassVar[Callable[..., ChildProcess]] = subprocess.Popen
    """What starts the process of a node, from the arguments of Popen."""

    def __init__(
        self,
        service: str,
        *,
        member_count: int = 3,
        root: Path | None = None,
        sync: SyncMode = "commit",
        service_mode: ServiceMode = "process",
        cluster: Mapping[str, Value] | None = None,
        node: Mapping[str, Value] | None = None,
        tables: Mapping[str, Table | Sequence[Table]] | None = None,
        keep: bool = False,
        environment: Mapping[str, str] | None = None,
        hosts: Mapping[int, str] | None = None,
        prefixes: Mapping[int, Sequence[str]] | None = None,
        ports: Sequence[int] | None = None,
        encrypted: bool = False,
    ) -> None:
        self.service = service
        self.member_ids = tuple(range(member_count))
        self.sync = sync
        self.service_mode = service_mode
        self.keep = keep
        self.root = Path(tempfile.mkdtemp(prefix="ordo-")) if root is None else root
        self.root.mkdir(parents=True, exist_ok=True)
        self._options = dict(cluster or {})
        self._node_options = dict(node or {})
        self._tables = dict(tables or {})
        self._environment = dict(environment or {})
        self._hosts = defaultdict(lambda: "127.0.0.1", hosts or {})
        self._prefixes = dict(prefixes or {})
        self._pid = os.getpid()
        self._processes: dict[int, ChildProcess] = {}
        self._ports = find_ports(member_count) if ports is None else _demand_ports(ports)
        self._name = f"ordo-{os.getpid()}-{self._ports[0]}-{secrets.token_hex(4)}"
        """What nobody else has in shared memory: ports are alike in another network namespace, process ids in another
        container."""
        self._is_encrypted = encrypted
        if encrypted:
            self._make_key("client")
        for member_id in self.member_ids:
            self._write_config(member_id)

    def add_member(self) -> int:
        """Write the configuration of one more node, a learner until the log says otherwise. Returns its member id.

        Nothing is started, and the cluster is not told: `new_member` is what it needs for that.
        """
        member_id = len(self.member_ids)
        self._ports += find_ports(1)
        self.member_ids = (*self.member_ids, member_id)
        self._write_config(member_id, is_learner=True)
        return member_id

    # Where things are

    @property
    def ingress_endpoints(self) -> dict[int, str]:
        """`host:port` of every member's ingress by member id, as ClusterClient takes it."""
        return {member_id: f"{self._hosts[member_id]}:{self._ports[member_id]}" for member_id in self.member_ids}

    @property
    def client_keys(self) -> dict[str, Any]:
        """`key_file` and `trusted_file` of a client, as ClientSettings takes them; empty without encryption."""
        return self._keys("client") if self._is_encrypted else {}

    def _keys(self, name: str) -> dict[str, str]:
        return {"key_file": str(self.root / f"{name}.key"), "trusted_file": str(self.root / "trusted.keys")}

    def _make_key(self, name: str) -> None:
        files = self._keys(name)
        if Path(files["key_file"]).exists():
            return
        command = [sys.executable, "-P", "-m", "ordo.cli", "keys", "new", files["key_file"]]
        made = subprocess.run(command, check=True, capture_output=True, text=True, env=self._child_environment())
        with open(files["trusted_file"], "a") as file:
            file.write(f"{made.stdout.strip()} {name}\n")

    def new_member(self, member_id: int) -> str:
        """Return a member as `ordo cluster add-learner` takes it."""
        return f"{member_id}=127.0.0.1:{self._ports[member_id]}"

    def config_path(self, member_id: int) -> Path:
        """Path of the node's configuration."""
        return self.root / f"{member_id}.toml"

    def data_dir(self, member_id: int) -> Path:
        """Folder of the node's archive, log and snapshots."""
        return self.root / str(member_id)

    def log_path(self, member_id: int) -> Path:
        """Path of the file that takes what the node prints."""
        return self.root / f"{member_id}.log"

    def aeron_dir(self, member_id: int) -> Path:
        """Folder of the node's media driver, in shared memory."""
        return SHARED_MEMORY / f"{self._name}-{member_id}"

    def pid(self, member_id: int) -> int:
        """Return the process id of the node. Raises ConfigurationError when it is not running."""
        return self._running(member_id).pid

    def logs(self, member_id: int) -> str:
        """Return what node and service of a member have written so far."""
        path = self.log_path(member_id)
        return path.read_text(errors="replace") if path.exists() else ""

    def log_events(self, member_id: int, event: str) -> Iterator[dict[str, object]]:
        """Yield the structured log lines of a member whose `event` is this one."""
        for line in self.logs(member_id).splitlines():
            if event not in line or not line.startswith("{"):
                continue
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # a line that is being written
            if entry.get("event") == event:
                yield entry

    # Starting and stopping

    def start(self) -> LocalCluster:
        """Start every member that is not running."""
        for member_id in self.member_ids:
            if not self.is_running(member_id):
                self.start_member(member_id)
        return self

    def start_member(self, member_id: int) -> None:
        """Start a node process; it stops by itself when this process is gone.

        What a killed predecessor left in shared memory is removed first, so that it need not time out.
        """
        shutil.rmtree(self.aeron_dir(member_id), ignore_errors=True)
        command = [
            *self._prefixes.get(member_id, ()),
            sys.executable,
            "-P",
            "-m",
            "ordo.cli",
            "node",
            "--die-with-parent",
        ]
        command += ["--config", str(self.config_path(member_id))]
        command += ["--service", self.service] if self.service else []
        with self.log_path(member_id).open("ab") as log:
            self._processes[member_id] = self.spawn(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._child_environment(),
                start_new_session=True,
            )

    def _child_environment(self) -> dict[str, str]:
        search_path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        return os.environ | {"PYTHONPATH": search_path} | self._environment

    def is_running(self, member_id: int) -> bool:
        """Return whether the node's process is there, stopped by SIGSTOP or not."""
        process = self._processes.get(member_id)
        return process is not None and process.poll() is None

    def send_signal(self, member_id: int, number: signal.Signals) -> None:
        """Send a signal, such as SIGSTOP and SIGCONT, to a node process; return after SIGSTOP once it holds the node.

        Raises ClusterTimeoutError when it does not.
        """
        process = self._running(member_id)
        process.send_signal(number)
        deadline_s = time.monotonic() + STOP_TIMEOUT_S * self.patience
        while number == signal.SIGSTOP and not is_process_held(process.pid):
            if time.monotonic() > deadline_s:
                raise ClusterTimeoutError(f"member {member_id} runs on after SIGSTOP")
            time.sleep(HOLD_INTERVAL_S)

    def kill(self, member_id: int, number: signal.Signals = signal.SIGKILL) -> int:
        """End a node process with a signal and wait for it. Returns its exit status."""
        process = self._running(member_id)
        process.send_signal(number)
        return self._wait(process)

    def stop(self, member_id: int) -> int:
        """Ask a node to end properly. Return its exit status."""
        return self.kill(member_id, signal.SIGTERM)

    def wait(self, member_id: int, timeout_s: float = 30.0) -> int:
        """Exit status of a node that was started and ends by itself, or ended already; negative: killed by a signal.

        Raises ClusterTimeoutError when it does not end.
        """
        timeout_s *= self.patience
        try:
            return self._processes[member_id].wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            raise ClusterTimeoutError(f"member {member_id} did not end within {timeout_s:g} s") from error

    def restart(self, member_id: int) -> None:
        """Start a node again on the data it has, after ending it if it still runs."""
        if self.is_running(member_id):
            self.stop(member_id)
        self.start_member(member_id)

    def stop_all(self) -> None:
        """Ask all nodes to end properly, together, and wait for them; their data stays."""
        self._check_process()
        running = [process for process in self._processes.values() if process.poll() is None]
        for process in running:
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in running:
            self._wait(process)

    def wipe(self, member_id: int) -> None:
        """Remove all data of a member that is not running."""
        if self.is_running(member_id):
            raise ConfigurationError(f"member {member_id} is running; kill or stop it before wiping its data")
        shutil.rmtree(self.data_dir(member_id), ignore_errors=True)

    def close(self) -> None:
        """Stop every node and remove what they left in shared memory, and the data unless `keep`.

        In a process that was forked from the one that started the nodes it does nothing.
        """
        if os.getpid() != self._pid:
            return
        self.stop_all()
        for member_id in self.member_ids:
            shutil.rmtree(self.aeron_dir(member_id), ignore_errors=True)
        release_ports(self._ports)
        if not self.keep:
            shutil.rmtree(self.root, ignore_errors=True)

    def __enter__(self) -> LocalCluster:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # Waiting

    def leader_term(self, member_id: int) -> int:
        """Term in which a member is the serving leader, or -1."""
        return counter_value(self.aeron_dir(member_id), CounterType.LEADER_TERM) if self.is_running(member_id) else -1

    def leader(self) -> int | None:
        """Return the member that serves in the highest term, or None."""
        terms = {member_id: self.leader_term(member_id) for member_id in self.member_ids}
        best = max(terms, key=terms.__getitem__)
        return best if terms[best] >= 0 else None

    def await_leader(self, timeout_s: float = 30.0, *, other_than: int | None = None) -> int:
        """Wait for the serving leader whose service has executed what was committed when it was first seen.

        Return its id.

        Raises ClusterTimeoutError, or NodeFailedError when a node ended by itself meanwhile.
        """
        targets: dict[int, int] = {}

        def serving() -> int | None:
            leader = self.leader()
            if leader is None or leader == other_than:
                return None
            progress = leader_progress(self.aeron_dir(leader))
            if progress is None:
                return None
            return leader if progress.executed >= targets.setdefault(leader, progress.committed) else None

        return self.await_value(serving, "a leader", timeout_s)

    def await_value(self, probe: Callable[[], T | None], what: str, timeout_s: float = 30.0) -> T:
        """Return what `probe` gives once it is not None; errors as for `await_leader`."""
        timeout_s *= self.patience
        deadline_s = time.monotonic() + timeout_s
        while (value := probe()) is None:
            self.check_running()
            if time.monotonic() > deadline_s:
                raise ClusterTimeoutError(f"{what} did not appear within {timeout_s:g} s; logs are in {self.root}")
            time.sleep(POLL_INTERVAL_S)
        return value

    def check_running(self) -> None:
        """Raise NodeFailedError when a node has ended with a status other than 0 or a signal sent here."""
        for member_id, process in self._processes.items():
            status = process.poll()
            if status is not None and status > 0:
                tail = " | ".join(self.logs(member_id).splitlines()[-3:])
                raise NodeFailedError(f"member {member_id} ended with status {status}: {tail}")

    # Inside

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise ForkedError(
                f"LocalCluster: started in process {self._pid}, and this is process {os.getpid()}, forked "
                "from it; start one here"
            )

    def _running(self, member_id: int) -> ChildProcess:
        self._check_process()
        process = self._processes.get(member_id)
        if process is None or process.poll() is not None:
            raise ConfigurationError(f"member {member_id} is not running; start it first")
        return process

    def _wait(self, process: ChildProcess) -> int:
        try:
            return process.wait(STOP_TIMEOUT_S * self.patience)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def _write_config(self, member_id: int, is_learner: bool = False) -> None:
        node: dict[str, Value] = {
            "member_id": member_id,
            "data_dir": str(self.data_dir(member_id)),
            "aeron_dir": str(self.aeron_dir(member_id)),
            "service_mode": self.service_mode,
            "sync": self.sync,
            **({"learner": True} if is_learner else {}),
            **self._node_options,
        }
        others = [other_id for other_id in self.member_ids if other_id != member_id]
        members = [
            {"id": listed_id, "host": self._hosts[listed_id], "port": self._ports[listed_id]}
            for listed_id in sorted([*others[:VOTERS_MAX], member_id])
        ]
        content: dict[str, Any] = {"node": node, "members": members, "cluster": dict(self._options)}
        if self._is_encrypted:
            self._make_key(f"member-{member_id}")
            content["encryption"] = self._keys(f"member-{member_id}")
        for name, table in self._tables.items():
            content[name] = dict(table) if isinstance(table, Mapping) else [dict(one) for one in table]
        self.config_path(member_id).write_text(tomlkit.dumps(content))


_reserved: dict[int, socket.socket] = {}


def find_ports(member_count: int) -> list[int]:
    """Return a base port for each member, with `PORTS_PER_MEMBER` free UDP ports from each.

    No other process is given them until this one ends or releases them.

    Raises ConfigurationError.
    """
    found: list[int] = []
    first = os.getpid() * 7 % len(PORTS)
    for index in range(len(PORTS)):
        port = PORTS[(first + index) % len(PORTS)]
        if reserve_ports(port):
            found.append(port)
        if len(found) == member_count:
            return found
    release_ports(found)
    raise ConfigurationError(f"no free UDP ports for {member_count} members in {PORTS.start} to {PORTS.stop}")


def release_ports(ports: Sequence[int]) -> None:
    """Let others have what `find_ports` and `reserve_ports` gave."""
    for port in ports:
        if port in _reserved:
            _reserved.pop(port).close()


atexit.register(lambda: release_ports(tuple(_reserved)))  # of clusters that were never started, or never stopped


def reserve_ports(port: int) -> bool:
    """Return whether a member can have the `PORTS_PER_MEMBER` UDP ports from here on.

    Then no other process is given them.

    Between finding ports free and binding them, others may look: a name that the system gives once keeps them.
    """
    name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        name.bind(f"\0ordo-ports-{port}")
        is_free = _are_free(port)
    except OSError:
        is_free = False
    if is_free:
        _reserved[port] = name
    else:
        name.close()
    return is_free


def _demand_ports(ports: Sequence[int]) -> list[int]:
    for port in ports:
        if not _are_free(port):
            last = port + PORTS_PER_MEMBER - 1
            raise ConfigurationError(
                f"UDP ports {port} to {last}: not all are free; end what uses them, or take others"
            )
    return list(ports)


def _are_free(port: int) -> bool:
    with ExitStack() as stack:
        for offset in range(PORTS_PER_MEMBER):
            probe = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            try:
                probe.bind(("127.0.0.1", port + offset))
            except OSError:
                return False
    return True
