"""Fuzzes doors, each in a process of its own, for so long: `python -m tests.fuzz --seconds 600 datagrams logs`.

A crash, or an exception that was not foreseen, leaves the input in build/fuzz/<door>/ and the command that runs it
again. What showed something new is in build/fuzz/<door>/found; `--keep` puts it into the corpus of the repository.
"""

from __future__ import annotations

import argparse
import faulthandler
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ordo.runtime.reporting.logging import configure_logging
from tests.fuzz.answer_doors import AnswerDoor
from tests.fuzz.client_doors import ClientDoor
from tests.fuzz.cluster_doors import ArchiveDoor, RecordDoor, SnapshotDoor, StoreDoor
from tests.fuzz.decoder_doors import MessageDoor, SegmentDoor
from tests.fuzz.driver_doors import CommandDoor, DatagramDoor, LogBufferDoor
from tests.fuzz.engine import Fuzzer, name_of, read_corpus
from tests.fuzz.gateway_doors import GatewayDoor
from tests.fuzz.kafka_doors import IS_INSTALLED as HAS_KAFKA
from tests.fuzz.kafka_doors import KafkaDoor
from tests.fuzz.live_doors import LiveDoor
from tests.fuzz.member_doors import MemberDoor, SessionDoor
from tests.fuzz.recording_doors import RecordingDoor
from tests.fuzz.secure_doors import HandshakeDoor
from tests.fuzz.stream_doors import StreamDoor

ALL_DOORS: tuple[Callable[[], Any], ...] = (
    DatagramDoor,
    StreamDoor,
    LogBufferDoor,
    CommandDoor,
    HandshakeDoor,
    MessageDoor,
    SessionDoor,
    MemberDoor,
    RecordDoor,
    ArchiveDoor,
    RecordingDoor,
    LiveDoor,
    AnswerDoor,
    ClientDoor,
    GatewayDoor,
    *((KafkaDoor,) if HAS_KAFKA else ()),
    SegmentDoor,
    SnapshotDoor,
    StoreDoor,
)
DOORS: dict[str, Callable[[], Any]] = {door.name: door for door in ALL_DOORS}  # type: ignore[attr-defined]
CORPUS = Path(__file__).parent / "corpus"
KEPT_MAX = 40


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("doors", nargs="*", help=f"of {', '.join(DOORS)}; all by default")
    parser.add_argument("--seconds", type=float, default=600.0, help="for each door")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"))
    parser.add_argument("--keep", action="store_true", help="put what was new into the corpus of the repository")
    parser.add_argument("--replay", type=Path, help="run one input through one door")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = set(options.doors) - set(DOORS)
    if unknown:
        parser.error(f"unknown door {sorted(unknown)[0]!r}, one of {', '.join(DOORS)}")
    faulthandler.enable()
    if options.replay is not None:
        print(DOORS[options.doors[0]]().run(options.replay.read_bytes()))
        return 0
    configure_logging("error")  # what is refused is told in a line, and all of this is
    if options.inside:
        return fuzz(options.doors[0], options)
    return max([watch(door, options) for door in options.doors or DOORS])


def watch(name: str, options: argparse.Namespace) -> int:
    """Runs a door in another process, for what is looked for may end it; 0 when nothing was found."""
    command = [sys.executable, "-m", "tests.fuzz", name, "--inside", "--seconds", str(options.seconds)]
    command += ["--seed", str(options.seed), "--out", str(options.out), *(["--keep"] if options.keep else [])]
    status = subprocess.run(command, check=False).returncode
    if status == 0:
        return 0
    current = options.out / name / "current"
    found = current.with_name(f"finding-{name_of(current.read_bytes())}")
    current.rename(found)
    print(f"{name}: FOUND (exit {status}); again: python -m tests.fuzz {name} --replay {found}", flush=True)
    return 1


def fuzz(name: str, options: argparse.Namespace) -> int:
    folder = options.out / name
    (folder / "found").mkdir(parents=True, exist_ok=True)
    current = (folder / "current").open("w+b")

    def leave_trace(data: bytes) -> None:
        current.seek(0)
        current.truncate()
        current.write(data)
        current.flush()

    door = DOORS[name]()
    ends = time.monotonic() + options.seconds
    fuzzer = Fuzzer(door, options.seed, read_corpus(CORPUS / name), leave_trace)
    while time.monotonic() < ends:
        fuzzer.step()
    for data in fuzzer.found:
        (folder / "found" / name_of(data)).write_bytes(data)
    if options.keep:
        keep(name, fuzzer.found)
    guide = "coverage" if fuzzer.coverage.is_there else "signatures"
    new = f"{len(fuzzer.found)} showed something new by {guide}, {fuzzer.coverage.edges} edges"
    print(f"{name}: {fuzzer.runs} runs, {new}; no findings", flush=True)
    if hasattr(door, "close"):
        door.close()
    return 0


def keep(name: str, found: list[bytes]) -> None:
    """The shortest new ones, as far as there is room in the repository's corpus."""
    folder = CORPUS / name
    folder.mkdir(parents=True, exist_ok=True)
    room = KEPT_MAX - len(list(folder.iterdir()))
    for data in sorted(found, key=len)[: max(room, 0)]:
        (folder / name_of(data)).write_bytes(data)


if __name__ == "__main__":
    sys.exit(main())
