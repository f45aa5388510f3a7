"""One reader that catches up with an archive of Ordo, beside one of Aeron's Java archive, in one run.

    python -m benchmarks.replays [--mib 512] [--rounds 5] [--no-java] [--json out.json]

Each contender has an archive process with a recording of messages of 1 KiB, in the page cache, and a reader process
with a driver of its own, over loopback: terms of 16 MiB, an MTU of 8 KiB, windows of 1 MiB, socket buffers of 2 MiB.
They are measured by turns, and who begins alternates; the first round is not counted. Ordo's reader takes blocks of
frames, as `RangeReader` does; Aeron's is called for each fragment, in Java.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from benchmarks.pairs import End
from benchmarks.transport import AERON, ORDO, java_command
from ordo.bench.machine import describe_machine
from ordo.deploy.launcher import find_ports
from tests.peers.peer_process import PeerMissingError
from tools.arguments import writable_file

SIZE_BYTES = 1024
MEMORY = Path("/dev/shm")


def start_reader(stack: ExitStack, command: list[str], mib: int) -> End:
    """A reader of a new archive with a recording."""
    archive_port, replay_port = find_ports(2)[:2]
    control = f"aeron:udp?endpoint=127.0.0.1:{archive_port}"
    folders = [stack.enter_context(tempfile.TemporaryDirectory(prefix="ordo-replays-", dir=MEMORY)) for _ in range(2)]
    archive = stack.enter_context(End([*command, "archive", folders[0], control, str(mib), str(SIZE_BYTES)]))
    archive.await_line("ready")
    reader = stack.enter_context(End([*command, "reader", folders[1], control, str(replay_port)]))
    reader.await_line("ready")
    return reader


def measure(mib: int, rounds: int, with_java: bool) -> dict[str, dict[str, float]]:
    """Megabytes a second by contender."""
    commands = {ORDO: [sys.executable, "-m", "benchmarks.replay_peer"]}
    if with_java:
        commands[AERON] = java_command("ReplayPeer")
    found: dict[str, list[float]] = {name: [] for name in commands}
    with ExitStack() as stack:
        readers = {name: start_reader(stack, command, mib) for name, command in commands.items()}
        for turn in range(rounds + 1):
            for name in sorted(readers, reverse=turn % 2 == 1):
                (rate,) = readers[name].ask("replay")
                if turn:
                    found[name].append(float(rate) / 1e6)
    return {
        name: {"median": round(median(rates)), "min": round(min(rates)), "max": round(max(rates))}
        for name, rates in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-java", action="store_true")
    parser.add_argument("--json", type=writable_file)
    options = parser.parse_args()
    try:
        rates = measure(options.mib, options.rounds, not options.no_java)
    except PeerMissingError as error:
        sys.exit(f"{error}; --no-java leaves Aeron out")
    print(json.dumps(rates))
    if options.json:
        figures = {"machine": describe_machine(), "mb_per_s": rates}
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
