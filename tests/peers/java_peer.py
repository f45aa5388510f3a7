"""Aeron's own Java as peers: the jar from Maven, programs of `java/` compiled once, processes driven by lines."""

from __future__ import annotations

import fcntl
import hashlib
import os
import queue
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Self

AERON_VERSIONS = ("1.47.4", "1.51.0")
"""The one whose formats this project was first tried against, and the newest of the package registry."""
ARTIFACT = "io.aeron:aeron-all:{}"
SOURCES = Path(__file__).with_name("java")
FETCH_TIMEOUT_S = 100
COMPILE_TIMEOUT_S = 60
LINE_TIMEOUT_S = 60.0
JVM_OPTIONS = (
    "--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.util.zip=ALL-UNNAMED",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Xmx256m",
    "-Daeron.timer.interval=100ms",
)
"""Drivers look at their timers ten times as often as by default, so that the ends of streams show sooner."""


class PeerMissingError(Exception):
    """Why no peer can be had on this machine."""


class PeerFailedError(AssertionError):
    """A peer said something else than it should, or nothing; the message holds what it said."""


def cache_folder() -> Path:
    """Where jar and classes are kept between runs: below the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "ordo" / "peers"


def class_path(version: str, sources: Path = SOURCES, name: str = "classes") -> tuple[Path, Path]:
    """Aeron's jar and the folder of the classes of `sources`; what is missing is fetched and compiled.

    `name` keeps the classes of several folders apart. Raises PeerMissingError.
    """
    with only_one():
        jar = _fetch_jar(version)
        return jar, _compile_programs(version, jar, sources, name)


@contextmanager
def only_one() -> Iterator[None]:
    """Test processes that run side by side fetch and compile once."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch_jar(version: str) -> Path:
    """Through Maven the first time."""
    jar = cache_folder() / f"aeron-all-{version}.jar"
    if jar.is_file():
        return jar
    run_maven("dependency:copy", f"-Dartifact={ARTIFACT.format(version)}", f"-DoutputDirectory={jar.parent}")
    return jar


def run_maven(*arguments: str) -> None:
    """Has Maven fetch something. Raises PeerMissingError."""
    maven = shutil.which("mvn")
    if maven is None:
        raise PeerMissingError(f"Maven (mvn) is not installed, for {' '.join(arguments)}")
    command = [maven, "-q", "-B", *arguments]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise PeerMissingError(f"not done within {FETCH_TIMEOUT_S} s: mvn {' '.join(arguments)}") from None
    if done.returncode:
        reason = next((line for line in done.stdout.splitlines() if "ERROR" in line), done.stderr[-200:])
        raise PeerMissingError(f"mvn {' '.join(arguments)}: {reason[:200]}")


def _compile_programs(version: str, jar: Path, folder: Path, name: str) -> Path:
    """Folder with the classes of a folder's programs, made again when a source changed."""
    sources = sorted(folder.glob("*.java"))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    classes = cache_folder() / f"{name}-{version}-{digest}"
    if classes.is_dir():
        return classes
    partial = classes.with_name(f"partial-{name}-{os.getpid()}")
    compile_java(sources, str(jar), partial)
    for old in cache_folder().glob(f"{name}-{version}-*"):
        shutil.rmtree(old, ignore_errors=True)
    partial.rename(classes)
    return classes


def compile_java(sources: list[Path], libraries: str, classes: Path) -> None:
    """Compiles sources with the class path `libraries`. Raises PeerMissingError without a JDK, PeerFailedError."""
    if shutil.which("javac") is None:
        raise PeerMissingError("a JDK (javac) is not installed")
    command = ["javac", "-cp", libraries, "-d", str(classes), *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False)
    if done.returncode:
        raise PeerFailedError(f"javac: {done.stderr}")


class JavaPeers:
    """Starts programs; `close` ends those that still run."""

    def __init__(self, jar: Path, classes: Path) -> None:
        self._class_path = f"{jar}{os.pathsep}{classes}"
        self._running: list[JavaPeer] = []

    def command(self, program: str, *arguments: object, **properties: object) -> list[str]:
        """Command line of a class; `aeron_dir=x` becomes the property `aeron.dir`."""
        settings = [f"-D{name.replace('_', '.')}={value}" for name, value in properties.items()]
        return ["java", *JVM_OPTIONS, *settings, "-cp", self._class_path, program, *map(str, arguments)]

    def start(self, program: str, *arguments: object) -> JavaPeer:
        """A process that is talked to."""
        peer = JavaPeer(self.command(program, *arguments))
        self._running.append(peer)
        return peer

    def run(self, program: str, *arguments: object, **properties: object) -> list[str]:
        """Lines that a program prints until it ends by itself. Raises PeerFailedError on another status than 0."""
        command = self.command(program, *arguments, **properties)
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LINE_TIMEOUT_S, check=False
        )
        if done.returncode:
            raise PeerFailedError(f"{program} ended with status {done.returncode}: {done.stderr}")
        return done.stdout.splitlines()

    def close(self) -> None:
        for peer in self._running:
            peer.kill()
        self._running.clear()


class JavaPeer:
    """One process; what it writes is kept in `said`."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1
        )
        self.said: list[str] = []
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        assert self._process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()

    def _read(self, output: IO[str]) -> None:
        for line in output:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def tell(self, line: str) -> None:
        """Sends it a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def poll(self) -> str | None:
        """The next line it said, or None. Raises PeerFailedError when that is an error, or when it has ended."""
        try:
            line = self._lines.get_nowait()
        except queue.Empty:
            return None
        return self._heard(line)

    def await_line(self, start: str, timeout_s: float = LINE_TIMEOUT_S) -> list[str]:
        """Words after `start` in the next line that begins with it. Raises PeerFailedError when none comes in time."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            try:
                line = self._heard(self._lines.get(timeout=max(0.0, deadline_s - time.monotonic())))
            except queue.Empty:
                raise self._failure(f"nothing like {start!r} within {timeout_s:g} s") from None
            if line.split(" ")[0] == start:
                return line.split(" ")[1:]

    def _heard(self, line: str | None) -> str:
        if line is None:
            raise self._failure(f"it ended with status {self._process.wait()}")
        self.said.append(line)
        if line.startswith(("error ", "Exception in thread")):
            time.sleep(0.2)  # the rest of its stack trace
            while not self._lines.empty():
                self.said.append(self._lines.get() or "")
            raise self._failure("an error")
        return line

    def _failure(self, what: str) -> PeerFailedError:
        return PeerFailedError("\n".join([f"peer: {what}; it said:", *self.said[-40:]]))

    def finish(self) -> None:
        """Ends its input and waits until it has closed everything. Raises PeerFailedError unless it ends well."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self.await_line("closed")
        if self._process.wait(LINE_TIMEOUT_S):
            raise self._failure(f"it ended with status {self._process.returncode}")

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None and not stream.closed:
                stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()
