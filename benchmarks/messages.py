"""Codecs of messages beside `struct`, msgspec, protobuf and SBE's own in Java, in one run.

    python -m benchmarks.messages [--rounds 21] [--count 100000] [--json out.json]

The ways of `ordo bench messages` take turns with a Java program whose codec SBE's tool generates from the schema that
`ordo schema export` writes. It reads what Ordo wrote, and must write the same bytes, before anything is measured. The
figures are medians of the rounds, of processor time, without the garbage collectors of both. The Java program is warmed
up, and its rounds are COUNT_FACTOR times as long, since its messages take so much less. Without a JDK its rows are left
out, and one line says so.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median

from rich.console import Console

from benchmarks.pairs import End, EndFailedError
from benchmarks.transport import JVM_OPTIONS
from ordo.bench.machine import describe_machine
from ordo.bench.message_codecs import SCHEMA, VALUES, Way, show_message_codecs, time_each_ns, ways
from ordo.runtime.closing import Closing
from ordo.service_api.messages.schema_xml import to_xml
from tests.peers.java_peer import SBE_VERSION, compile_java, fetch_sbe
from tests.peers.peer_process import PeerMissingError, cache_folder, only_one
from tools.arguments import writable_file

PROGRAM = Path(__file__).parent / "java" / "sbe" / "OrderCodecs.java"
GENERATE_TIMEOUT_S = 60
WARM_UP_ROUNDS = 10
COUNT_FACTOR = 20
OBJECTS, IN_PLACE = f"SBE {SBE_VERSION}, Java", f"SBE {SBE_VERSION}, Java, in place"
JAVA_WAYS = {OBJECTS: ("encode", "decode"), IN_PLACE: ("write", "read")}
"""What the program is asked for: from an object into bytes and back, or without objects."""


class JavaCodec(Closing):
    """The Java program, warmed up. Raises EndFailedError where its bytes are not those of Ordo."""

    def __init__(self, warm_up_count: int) -> None:
        self._end = End([*_java_command(), "OrderCodecs"])
        try:
            written = self.write(VALUES)
            ours = next(way for way in ways() if way.name == "Ordo").write()
            if written != ours or self.read(ours) != VALUES:
                raise EndFailedError(f"Java's SBE writes {written.hex()}, Ordo {ours.hex()}")
            for _ in range(WARM_UP_ROUNDS):
                self.measure(warm_up_count)
        except BaseException:
            self.close()
            raise

    def write(self, values: tuple[int, ...]) -> bytes:
        """Return the message of these values."""
        return bytes.fromhex(self._end.ask(" ".join(map(str, ("values", *values))))[0])

    def read(self, payload: bytes) -> tuple[int, ...]:
        """Return the values of a message."""
        return tuple(map(int, self._end.ask(f"fields {payload.hex()}")))

    def measure(self, count: int) -> dict[str, tuple[float, float]]:
        """Return ns to write and to read a message, by way."""
        return {
            name: (self._ask_ns(write, count), self._ask_ns(read, count)) for name, (write, read) in JAVA_WAYS.items()
        }

    def _ask_ns(self, call: str, count: int) -> float:
        return float(self._end.ask(f"{call} {count}")[0])

    def close(self) -> None:
        self._end.close()


def _java_command() -> list[str]:
    """Raises PeerMissingError."""
    for program in ("java", "javac"):
        if shutil.which(program) is None:
            raise PeerMissingError(f"a JDK ({program}) is not installed")
    with only_one():
        jar = fetch_sbe()
        return ["java", *JVM_OPTIONS, "-cp", f"{jar}{os.pathsep}{_compile(jar)}"]


def _compile(jar: Path) -> Path:
    """Folder with the classes, made again when the schema, the tool or the program changed."""
    schema = to_xml(SCHEMA)
    digest = hashlib.sha256(schema.encode() + PROGRAM.read_bytes()).hexdigest()[:16]
    classes = cache_folder() / f"codecs-{SBE_VERSION}-{digest}"
    if classes.is_dir():
        return classes
    partial = classes.with_name(f"partial-codecs-{os.getpid()}")
    generated = partial / "generated"
    generated.mkdir(parents=True, exist_ok=True)
    (partial / "schema.xml").write_text(schema)
    command = ["java", f"-Dsbe.output.dir={generated}", "-jar", str(jar), str(partial / "schema.xml")]
    subprocess.run(command, check=True, timeout=GENERATE_TIMEOUT_S, stdin=subprocess.DEVNULL)
    compile_java([*sorted(generated.rglob("*.java")), PROGRAM], str(jar), partial)
    for old in cache_folder().glob("codecs-*"):
        shutil.rmtree(old, ignore_errors=True)
    partial.rename(classes)
    return classes


def measure(rounds: int, count: int, java: JavaCodec | None) -> dict[str, dict[str, float]]:
    """By way, the medians of the rounds in ns, and the bytes of a message."""
    contenders = list(ways())
    found: dict[str, list[tuple[float, float]]] = {}
    for _ in range(rounds):
        turn = {way.name: _time(way, count) for way in contenders}
        turn |= java.measure(count * COUNT_FACTOR) if java else {}
        for name, figures in turn.items():
            found.setdefault(name, []).append(figures)
    sizes = {way.name: len(way.write()) for way in contenders}
    return {
        name: {
            "encode": round(median(one[0] for one in figures), 1),
            "decode": round(median(one[1] for one in figures), 1),
            "bytes": sizes.get(name, sizes["Ordo"]),
        }
        for name, figures in found.items()
    }


def _time(way: Way, count: int) -> tuple[float, float]:
    return time_each_ns(way.write, count), time_each_ns(way.read, count)


def start_java(count: int) -> JavaCodec | None:
    """The program, or None with a line that says why."""
    try:
        return JavaCodec(count * COUNT_FACTOR)
    except PeerMissingError as missing:
        print(f"without Java's SBE: {missing}", file=sys.stderr)
        return None


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--json", type=writable_file)
    options = parser.parse_args(arguments)
    if min(options.rounds, options.count) < 1:
        parser.error("--rounds and --count are 1 or more")
    java = start_java(options.count)
    try:
        figures = {"message_codec_ns": measure(options.rounds, options.count, java)}
    finally:
        if java is not None:
            java.close()
    show_message_codecs(Console(), figures)
    if options.json:
        options.json.write_text(json.dumps({"machine": describe_machine(), **figures}, indent=2) + "\n")


if __name__ == "__main__":
    main()
