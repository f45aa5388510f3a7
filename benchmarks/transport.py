"""Streams of Ordo beside those of Aeron's Java driver and client, in one run.

    python -m benchmarks.transport [--quick] [--write] [--no-java] [--json out.json]

Two processes for each contender and each kind of channel: a near end and a far end, each with its driver on its
client's thread (in shared memory, the far end's driver serves both). Both contenders stand ready all the time, at rest
but for a look each millisecond; they are measured by turns, and who begins alternates. Before the rounds of a size each
contender is warmed up until three windows agree within 3 %; a figure of one that never became steady is marked. What is
told is the median of the rounds, side by side: ratios are not printed, since this layout (everything of an end on one
thread) need not be the fastest one of each contender.

Round trips: one message on the way; the far end sends it back. Throughput: one publication, as fast as it goes, for a
fixed time; the clock stops when the far end has said that it received everything. Both contenders have the same terms
(16 MiB), windows (1 MiB), socket buffers (2 MiB), batches, and the same idling: sched_yield while there is traffic.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.page import put_section, table
from benchmarks.pairs import WARM_UPS_MAX, End, Samples, medians, warm_up
from ordo.bench.machine import Machine, describe_machine
from ordo.deploy.launcher import find_ports
from tests.peers.java_peer import AERON_VERSIONS, class_path
from tests.peers.peer_process import PeerMissingError
from tools.arguments import writable_file

NAME = "bench-transport"
JAVA = Path(__file__).with_name("java")
AERON_VERSION = AERON_VERSIONS[-1]
JVM_OPTIONS = (
    "--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.util.zip=ALL-UNNAMED",
    "-XX:+UseParallelGC",
    "-Xms256m",
    "-Xmx256m",
    "-Dagrona.disable.bounds.checks=true",
    "-Daeron.print.configuration=false",
)
ORDO, AERON = "Ordo", f"Aeron {AERON_VERSION}, Java"
SIZES_BYTES = (32, 288, 1024, 65536)
MTUS_BYTES = (1408, 8192)
MEDIA = ("udp", "ipc")
TERM_LENGTH_BYTES = 16 << 20
BATCH_SIZE_BYTES = 32
Figures = dict[str, dict[str, float]]
"""Figures by contender."""


@dataclass(frozen=True)
class Effort:
    """How much is measured: rounds that count, and for how long each figure."""

    rounds: int = 5
    duration_ms: int = 400
    sizes_bytes: tuple[int, ...] = SIZES_BYTES
    mtus_bytes: tuple[int, ...] = MTUS_BYTES
    warm_ups_max: int = WARM_UPS_MAX


QUICK = Effort(rounds=1, duration_ms=40, warm_ups_max=1)


@dataclass(frozen=True)
class Setup:
    """A kind of channel."""

    medium: str
    mtu_bytes: int

    def channels(self, ports: list[int]) -> tuple[str, str]:
        """Channels there and back."""
        settings = f"mtu={self.mtu_bytes}|term-length={TERM_LENGTH_BYTES}"
        if self.medium == "ipc":
            return (f"aeron:ipc?{settings}|alias=there", f"aeron:ipc?{settings}|alias=back")
        return (
            f"aeron:udp?endpoint=127.0.0.1:{ports[0]}|{settings}",
            f"aeron:udp?endpoint=127.0.0.1:{ports[1]}|{settings}",
        )


def java_command(program: str) -> list[str]:
    """The words before the arguments of a program of `java/`. Raises PeerMissingError."""
    if shutil.which("java") is None:
        raise PeerMissingError("Java is not installed")
    jar, classes = class_path(AERON_VERSION, JAVA, "bench")
    return ["java", *JVM_OPTIONS, "-cp", f"{jar}:{classes}", program]


def commands(with_java: bool) -> dict[str, list[str]]:
    """The words before the arguments of an end, by contender."""
    found = {ORDO: [sys.executable, "-m", "benchmarks.stream_peer"]}
    if with_java:
        found[AERON] = java_command("StreamPeer")
    return found


@contextmanager
def near_ends(contenders: dict[str, list[str]], setup: Setup, longest_bytes: int) -> Iterator[dict[str, End]]:
    """Both ends of every contender, connected; hands out the near ones."""
    with ExitStack() as stack:
        near: dict[str, End] = {}
        for name, command in contenders.items():
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ordo-bench-", dir="/dev/shm")))
            first = find_ports(1)[0]
            there, back = setup.channels([first, first + 1])
            is_ipc = setup.medium == "ipc"
            longest = str(longest_bytes)
            far = End([*command, "far", str(folder / "far"), "launch", back, there, longest])
            stack.callback(far.close)
            if is_ipc:
                await_driver(folder / "far" / "cnc.dat")
            at = (str(folder / "far"), "attach") if is_ipc else (str(folder / "near"), "launch")
            near[name] = End([*command, "near", *at, there, back, longest])
            stack.callback(near[name].close)
            near[name].await_line("ready")
        yield near


def await_driver(path: Path, timeout_s: float = 20.0) -> None:
    """Waits until a driver has made its counters file. Raises TimeoutError."""
    deadline_s = time.monotonic() + timeout_s
    while not path.exists():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"no driver made {path} within {timeout_s:g} s")
        time.sleep(0.02)
    time.sleep(0.2)  # an Aeron client waits for it to be filled in; Ordo's does as well


def trips(end: End, size_bytes: int, duration_ms: int) -> dict[str, float]:
    count, p50_ns, p99_ns = map(int, end.ask(f"trips {size_bytes} {duration_ms}"))
    return {"p50_us": p50_ns / 1000, "p99_us": p99_ns / 1000, "count": count}


def stream(end: End, size_bytes: int, duration_ms: int, how: str = "stream") -> dict[str, float]:
    count, took_ns = map(int, end.ask(f"{how} {size_bytes} {duration_ms}"))
    return {"per_s": count / took_ns * 1e9}


def measure_rounds(near: dict[str, End], size_bytes: int, effort: Effort) -> Figures:
    """Round trips and throughput of one size, by turns; medians."""
    samples: Samples = {name: [] for name in near}
    steady = {name: _warm_up(end, size_bytes, effort) for name, end in near.items()}
    for number in range(effort.rounds):
        turn = list(reversed(near)) if number % 2 else list(near)
        found: Figures = {name: trips(near[name], size_bytes, effort.duration_ms) for name in turn}
        for name in turn:
            found[name] |= stream(near[name], size_bytes, effort.duration_ms)
            samples[name].append(found[name])
    return {name: figures | {"steady": steady[name]} for name, figures in medians(samples).items()}


def _warm_up(end: End, size_bytes: int, effort: Effort) -> bool:
    """Warm up both kinds of traffic; return whether both became steady."""
    duration_ms, windows_max = effort.duration_ms, effort.warm_ups_max
    streams = warm_up(lambda: stream(end, size_bytes, duration_ms)["per_s"], windows_max)
    return warm_up(lambda: trips(end, size_bytes, duration_ms)["p50_us"], windows_max) and streams


def measure_batches(end: End, effort: Effort) -> dict[str, float]:
    """Plain Python with `offer_many`; the first round warms up."""
    rounds = [stream(end, BATCH_SIZE_BYTES, effort.duration_ms, "batch") for _ in range(effort.rounds + 1)]
    return medians({ORDO: rounds[1:]})[ORDO]


def measure(effort: Effort, with_java: bool, say: Callable[[str], object] = print) -> dict[str, Figures]:
    """Everything: figures by contender, by the name of the row."""
    contenders = commands(with_java)
    rows: dict[str, Figures] = {}
    for medium in MEDIA:
        for mtu_bytes in effort.mtus_bytes:
            setup = Setup(medium, mtu_bytes)
            say(f"{time.strftime('%H:%M:%S')} {medium}, MTU {mtu_bytes}")
            with near_ends(contenders, setup, max(*effort.sizes_bytes, BATCH_SIZE_BYTES)) as near:
                for size_bytes in effort.sizes_bytes:
                    rows[f"{medium}, MTU {mtu_bytes}, {size_bytes} B"] = measure_rounds(near, size_bytes, effort)
                name = f"{medium}, MTU {mtu_bytes}, {BATCH_SIZE_BYTES} B, plain Python"
                rows[name] = {ORDO: measure_batches(near[ORDO], effort)}
    return rows


def describe(rows: dict[str, Figures], effort: Effort, machine: Machine) -> list[str]:
    """The section of the page; `machine` as it was before the run."""
    lines = [
        f"{machine['processor']}, {machine['cores']} cores, Linux {machine['kernel']}, loopback and /dev/shm, nothing "
        f"synced (streams alone write no file); load average before the run {machine['load_average_1m']}. Two "
        f"processes a contender, each with its driver on its client's thread; terms 16 MiB, windows 1 MiB, socket "
        f"buffers 2 MiB; medians of {effort.rounds} alternating rounds of {effort.duration_ms} ms, after a warm-up "
        "until three windows agreed within 3 %; *: they never did.",
        "",
    ]
    head = ["channel", "messages a second: Ordo", AERON, "round trip µs p50 / p99: Ordo", AERON]
    cells = [
        [
            name,
            *(rate(figures.get(who)) for who in (ORDO, AERON)),
            *(trip(figures.get(who)) for who in (ORDO, AERON)),
        ]
        for name, figures in rows.items()
    ]
    return lines + table(head, cells)


def rate(figures: dict[str, float] | None) -> str:
    if figures is None:
        return "-"
    return f"{figures['per_s']:,.0f}" + ("" if figures.get("steady", True) else " *")


def trip(figures: dict[str, float] | None) -> str:
    return "-" if figures is None or "p50_us" not in figures else f"{figures['p50_us']:.1f} / {figures['p99_us']:.1f}"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Measure streams beside Aeron's Java driver.")
    parser.add_argument("--quick", action="store_true", help="one short round: to see that it runs, not to quote")
    parser.add_argument("--write", action="store_true", help="put the table into docs/PERFORMANCE.md")
    parser.add_argument("--no-java", action="store_true", help="Ordo alone")
    parser.add_argument("--json", type=writable_file, help="write the figures to this file as well")
    chosen = parser.parse_args(arguments)
    machine = describe_machine()
    effort = QUICK if chosen.quick else Effort()
    with_java = not chosen.no_java
    try:
        rows = measure(effort, with_java)
    except PeerMissingError as missing:
        sys.exit(f"{missing}; install a JDK and Maven, or measure Ordo alone with --no-java")
    lines = describe(rows, effort, machine)
    print("\n".join(lines))
    if chosen.json:
        chosen.json.write_text(json.dumps({"machine": machine, "rows": rows}, indent=2) + "\n")
    if chosen.write:
        put_section(NAME, lines)


if __name__ == "__main__":
    main()
