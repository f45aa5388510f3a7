"""Aeron's own Java as peers: the jar from Maven, programs of `java/` compiled once."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from tests.patience import patient
from tests.peers.peer_process import (
    LINE_TIMEOUT_S,
    PeerFailedError,
    PeerMissingError,
    PeerProcess,
    cache_folder,
    only_one,
)

AERON_VERSIONS = ("1.47.4", "1.51.0")
"""The one whose formats this project was first tried against, and the newest of the package registry."""
ARTIFACT = "io.aeron:aeron-all:{}"
SBE_VERSION = "1.38.1"
SBE_ARTIFACT = f"uk.co.real-logic:sbe-all:{SBE_VERSION}"
SOURCES = Path(__file__).with_name("java")
FETCH_TIMEOUT_S = 100
COMPILE_TIMEOUT_S = 60
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


def class_path(version: str, sources: Path = SOURCES, name: str = "classes") -> tuple[Path, Path]:
    """Aeron's jar and the folder of the classes of `sources`; what is missing is fetched and compiled.

    `name` keeps the classes of several folders apart. Raises PeerMissingError.
    """
    with only_one():
        jar = _fetch_jar(version)
        return jar, _compile_programs(version, jar, sources, name)


def _fetch_jar(version: str) -> Path:
    return _fetch(f"aeron-all-{version}.jar", ARTIFACT.format(version))


def fetch_sbe() -> Path:
    """The jar of SBE's own tool, with what its generated code needs. Raises PeerMissingError."""
    return _fetch(f"sbe-all-{SBE_VERSION}.jar", SBE_ARTIFACT)


def _fetch(name: str, artifact: str) -> Path:
    """Through Maven the first time."""
    jar = cache_folder() / name
    if not jar.is_file():
        run_maven("dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={jar.parent}")
    return jar


def run_maven(*arguments: str) -> None:
    """Has Maven fetch something. Raises PeerMissingError."""
    maven = shutil.which("mvn")
    if maven is None:
        raise PeerMissingError(f"Maven (mvn) is not installed, for {' '.join(arguments)}")
    command = [maven, "-q", "-B", *arguments]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=patient(FETCH_TIMEOUT_S),
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise PeerMissingError(f"not done within {late.timeout:g} s: mvn {' '.join(arguments)}") from None
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
    done = subprocess.run(command, capture_output=True, text=True, timeout=patient(COMPILE_TIMEOUT_S), check=False)
    if done.returncode:
        raise PeerFailedError(f"javac: {done.stderr}")


class JavaPeers:
    """Starts programs; `close` ends those that still run."""

    def __init__(self, jar: Path, classes: Path) -> None:
        self._class_path = f"{jar}{os.pathsep}{classes}"
        self._running: list[PeerProcess] = []

    def command(self, program: str, *arguments: object, **properties: object) -> list[str]:
        """Command line of a class; `aeron_dir=x` becomes the property `aeron.dir`."""
        settings = [f"-D{name.replace('_', '.')}={value}" for name, value in properties.items()]
        patience = f"-Dpatience={patient(1.0):.1f}"
        return ["java", *JVM_OPTIONS, patience, *settings, "-cp", self._class_path, program, *map(str, arguments)]

    def start(self, program: str, *arguments: object) -> PeerProcess:
        """A process that is talked to."""
        peer = PeerProcess(self.command(program, *arguments))
        self._running.append(peer)
        return peer

    def run(
        self, program: str, *arguments: object, timeout_s: float = LINE_TIMEOUT_S, **properties: object
    ) -> list[str]:
        """Lines that a program prints until it ends by itself. Raises PeerFailedError on another status than 0."""
        command = self.command(program, *arguments, **properties)
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=patient(timeout_s), check=False
        )
        if done.returncode:
            raise PeerFailedError(f"{program} ended with status {done.returncode}: {done.stderr}")
        return done.stdout.splitlines()

    def close(self) -> None:
        for peer in self._running:
            peer.kill()
        self._running.clear()
