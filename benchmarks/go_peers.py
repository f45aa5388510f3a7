"""etcd and NATS JetStream, three members each, driven by their own benchmark tools, all from the Go module proxy."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

from ordo.deploy.launcher import find_ports
from tests.peers.peer_process import cache_folder

MODULES = {
    "etcd": ("go.etcd.io/etcd/server/v3@v3.6.8", "go.etcd.io/etcd/server/v3"),
    "etcd-benchmark": ("go.etcd.io/etcd/v3/tools/benchmark@v3.6.8", "go.etcd.io/etcd/v3/tools/benchmark"),
    "nats-server": ("github.com/nats-io/nats-server/v2@v2.12.3", "github.com/nats-io/nats-server/v2"),
    "nats": ("github.com/nats-io/natscli/nats@v0.3.0", "github.com/nats-io/natscli/nats"),
}
FAMILIES = {"etcd": ("etcd", "etcd-benchmark"), "nats": ("nats-server", "nats")}
VERSIONS = {name: module.rpartition("@")[2] for name, (module, _) in MODULES.items()}
BUILD_TIMEOUT_S = 1200.0
START_TIMEOUT_S = 30.0
RUN_TIMEOUT_S = 60.0
WINDOWS = (1, 512)
GUESSES = {1: 200.0, 512: 3000.0}
"""Messages a second to begin with: how many make up the time is found by a first run."""


class GoMissingError(RuntimeError):
    """Why the tools cannot be had on this machine."""


@dataclass(frozen=True)
class GoTools:
    """Where the programs are."""

    folder: Path

    def path(self, name: str) -> str:
        return str(self.folder / name)


def fetch_tools() -> GoTools:
    """The programs, fetched and built the first time, which takes some minutes. Raises GoMissingError."""
    folder = cache_folder().parent / "go-peers" / "-".join(VERSIONS[name] for name in MODULES)
    for names in FAMILIES.values():
        build_programs(folder, {name: MODULES[name] for name in names})
    return GoTools(folder)


def build_programs(folder: Path, modules: Mapping[str, tuple[str, str]]) -> None:
    """Builds what is not in `folder` yet: by name a module with its version, and the package in it. Raises
    GoMissingError."""
    if all((folder / name).is_file() for name in modules):
        return
    if shutil.which("go") is None:
        raise GoMissingError(f"Go is not installed, to build {', '.join(modules)}")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ordo-go-") as work:
        _go(work, "mod", "init", "local/programs")
        _go(work, "get", *(module for module, _ in modules.values()))
        for name, (module, package) in modules.items():
            print(f"building {module} (once)", flush=True)
            _go(work, "build", "-o", str(folder / name), package)


def _go(work: str, *arguments: str) -> None:
    done = subprocess.run(
        ["go", *arguments], cwd=work, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False
    )
    if done.returncode:
        raise GoMissingError(f"go {arguments[0]} failed: {done.stderr.strip()[-300:]}")


@contextmanager
def processes(commands: Sequence[Sequence[str]], root: Path) -> Iterator[None]:
    """Runs members with their output below `root`, and ends them."""
    with ExitStack() as stack:
        for number, command in enumerate(commands):
            log = stack.enter_context((root / f"{number}.log").open("w"))
            process = subprocess.Popen(list(command), stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield


def run(command: Sequence[str]) -> str:
    done = subprocess.run(list(command), capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {(done.stdout + done.stderr)[-500:]}")
    return done.stdout + done.stderr


def await_success(command: Sequence[str]) -> None:
    """Tries until the command succeeds. Raises RuntimeError."""
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            run(command)
            return
        except RuntimeError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.2)


def measured(once: Callable[[int], tuple[float, str]], guess: float, duration_s: float) -> tuple[float, str]:
    """Runs once to find out how many messages make up the time, then for the figure."""
    rate, _ = once(max(50, round(guess * 0.3)))
    return once(max(50, round(rate * duration_s)))


def row(name: str, sync: str, size_bytes: int, window: int, found: tuple[float, str]) -> list[str]:
    """A row of the table; `found`: messages a second, and percentiles as text."""
    rate, times = found
    return [name, sync, f"{size_bytes:,}", str(window), f"{rate:,.0f}", times]


# --- etcd -----------------------------------------------------------------------------------------------------------


def measure_etcd(tools: GoTools, sizes_bytes: Sequence[int], duration_s: float) -> list[list[str]]:
    """Rows of puts: size and window, with and without sync."""
    rows = []
    for sync, extra in (("none", ["--unsafe-no-fsync"]), ("commit", [])):
        with tempfile.TemporaryDirectory(prefix="ordo-etcd-") as folder:
            root, ports = Path(folder), find_ports(3)
            peers = ",".join(f"{i}=http://127.0.0.1:{ports[i] + 1}" for i in range(3))
            members = [_etcd_member(tools, root, i, ports[i], peers, extra) for i in range(3)]
            endpoints = ",".join(f"127.0.0.1:{port}" for port in ports)
            base = [tools.path("etcd-benchmark"), f"--endpoints={endpoints}", "--target-leader", "put"]
            with processes(members, root):
                await_success([*base, "--total=1"])
                for size_bytes, window in product(sizes_bytes, WINDOWS):
                    command = [*base, f"--val-size={size_bytes}", f"--clients={window}", "--key-space-size=1000"]
                    command.append(f"--conns={min(window, 8)}")
                    found = measured(partial(_etcd_run, command), GUESSES[window], duration_s)
                    rows.append(row(f"etcd {VERSIONS['etcd']}, put", sync, size_bytes, window, found))
    return rows


def _etcd_member(tools: GoTools, root: Path, i: int, port: int, peers: str, extra: list[str]) -> list[str]:
    client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{port + 1}"
    command = [tools.path("etcd"), f"--name={i}", f"--data-dir={root / str(i)}", f"--listen-client-urls={client}"]
    command += [f"--advertise-client-urls={client}", f"--listen-peer-urls={peer}"]
    command += [f"--initial-advertise-peer-urls={peer}", f"--initial-cluster={peers}", "--log-level=error"]
    return [*command, *extra]


def _etcd_run(command: Sequence[str], count: int) -> tuple[float, str]:
    said = run([*command, f"--total={count}"])
    rate = re.search(r"Requests/sec:\s+([\d.]+)", said)
    if not rate:
        raise RuntimeError(f"etcd's benchmark said something else than expected: {said[-500:]}")
    shares = (re.search(rf"{share}% in ([\d.]+) secs", said) for share in (50, 99))
    return float(rate[1]), " / ".join(f"{float(share[1]) * 1e6:,.0f}" if share else "-" for share in shares)


# --- NATS -----------------------------------------------------------------------------------------------------------


def measure_nats(tools: GoTools, sizes_bytes: Sequence[int], duration_s: float) -> list[list[str]]:
    """Rows of published messages: size and window, with and without sync."""
    rows = []
    for sync, interval in (("none", "2m"), ("commit", "always")):
        with tempfile.TemporaryDirectory(prefix="ordo-nats-") as folder:
            root, ports = Path(folder), find_ports(3)
            members = [_nats_member(tools, root, i, ports, interval) for i in range(3)]
            url = ",".join(f"nats://127.0.0.1:{port}" for port in ports)
            base = [tools.path("nats"), "--no-context", f"--server={url}"]
            create = ["stream", "add", "bench", "--subjects=bench", "--replicas=3", "--storage=file", "--defaults"]
            with processes(members, root):
                await_success([*base, *create])
                for size_bytes, window in product(sizes_bytes, WINDOWS):
                    how = ["sync"] if window == 1 else ["async", f"--batch={window}"]
                    command = [*base, "bench", "js", "pub", *how, "bench", "--stream=bench", f"--size={size_bytes}B"]
                    command.append("--no-progress")
                    found = measured(partial(_nats_run, command), GUESSES[window], duration_s)
                    name = f"NATS JetStream {VERSIONS['nats-server']}, publish"
                    rows.append(row(name, sync, size_bytes, window, found))
    return rows


def _nats_member(tools: GoTools, root: Path, i: int, ports: Sequence[int], interval: str) -> list[str]:
    routes = ", ".join(f"nats://127.0.0.1:{port + 1}" for port in ports)
    config = root / f"{i}.conf"
    config.write_text(
        f"server_name: n{i}\nlisten: 127.0.0.1:{ports[i]}\n"
        f"jetstream {{ store_dir: {str(root / str(i))!r}, sync_interval: {interval} }}\n"
        f"cluster {{ name: bench, listen: 127.0.0.1:{ports[i] + 1}, routes: [{routes}] }}\n"
    )
    return [tools.path("nats-server"), "--config", str(config)]


def _nats_run(command: Sequence[str], count: int) -> tuple[float, str]:
    said = run([*command, f"--msgs={count}"])
    rate = re.search(r"([\d,]+) msgs/sec", said)
    if not rate:
        raise RuntimeError(f"NATS' benchmark said something else than expected: {said[-500:]}")
    per_s = float(rate[1].replace(",", ""))
    return per_s, _nats_times(said)


def _nats_times(said: str) -> str:
    """Percentiles, where this version of the tool tells them."""
    found = {name: re.search(rf"{name}:?\s+([\d.]+)(µs|us|ms|s)\b", said) for name in ("P50", "P99")}
    scale = {"µs": 1.0, "us": 1.0, "ms": 1e3, "s": 1e6}
    told = [f"{float(match[1]) * scale[match[2]]:,.0f}" if match else "-" for match in found.values()]
    return "-" if told == ["-", "-"] else " / ".join(told)
