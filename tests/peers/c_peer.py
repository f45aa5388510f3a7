"""Aeron's C client and driver as peers: a crate carries their source, which is compiled once."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.patience import patient
from tests.peers.peer_process import PeerFailedError, PeerMissingError, cache_folder, only_one

CRATE, VERSION = "libaeron-sys", "1.54.0"
PROGRAMS = Path(__file__).with_name("c")
FETCH_TIMEOUT_S = 100
COMPILE_TIMEOUT_S = 100
COMPILERS = 2
MANIFEST = f"""
[package]
name = "peer"
version = "0.0.0"
edition = "2021"

[dependencies]
{CRATE} = "={VERSION}"
"""
DRIVER_SETTINGS = {
    "AERON_THREADING_MODE": "SHARED",
    "AERON_SHARED_IDLE_STRATEGY": "sleep-ns",
    "AERON_TERM_BUFFER_LENGTH": str(1 << 20),
    "AERON_IPC_TERM_BUFFER_LENGTH": str(1 << 20),
    "AERON_DIR_DELETE_ON_START": "1",
    "AERON_DIR_DELETE_ON_SHUTDOWN": "1",
    "AERON_TIMER_INTERVAL": "100ms",
}
LIBRARIES = ("-lpthread", "-ldl", "-lm")
MAJOR, MINOR, PATCH = VERSION.split(".")
FLAGS = (
    *("-w", "-O1", "-std=gnu11", "-D_DEFAULT_SOURCE"),
    *(f"-DHAVE_{name}" for name in ("EPOLL", "FALLOCATE", "POSIX_MEMALIGN", "RECVMMSG", "SENDMMSG", "STRUCT_MMSGHDR")),
    *(f"-DAERON_VERSION_{name}={value}" for name, value in (("MAJOR", MAJOR), ("MINOR", MINOR), ("PATCH", PATCH))),
    *(f'-DAERON_VERSION_TXT="{VERSION}"', '-DAERON_VERSION_GITSHA="unknown"'),
)


def c_programs() -> Path:
    """Folder with Aeron's driver, `aeronmd`, and the programs of `c/`, compiled. Raises PeerMissingError."""
    with only_one():
        sources = sorted(PROGRAMS.glob("*.c"))
        digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
        programs = cache_folder() / f"c-{VERSION}-{digest}"
        if not programs.is_dir():
            partial = programs.with_name(f"partial-c-{os.getpid()}")
            partial.mkdir()
            _compile_all(_fetch(), sources, partial)
            partial.rename(programs)
        return programs


@contextmanager
def start_c_driver(programs: Path, folder: Path, **settings: str) -> Iterator[subprocess.Popen[str]]:
    """Aeron's C driver in this folder; killed at the end of the block if it still runs."""
    environment = {**os.environ, **DRIVER_SETTINGS, **settings, "AERON_DIR": str(folder)}
    with subprocess.Popen(
        [str(programs / "aeronmd")], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _fetch() -> Path:
    """Aeron's source, through Cargo the first time."""
    source = cache_folder() / f"aeron-c-{VERSION}"
    if source.is_dir():
        return source
    if shutil.which("cargo") is None:
        raise PeerMissingError(f"Rust's cargo is not installed, for {CRATE} {VERSION}")
    project = cache_folder() / f"partial-crate-{os.getpid()}"
    (project / "src").mkdir(parents=True)
    (project / "src" / "lib.rs").touch()
    (project / "Cargo.toml").write_text(MANIFEST)
    try:
        _run(["cargo", "vendor", "--quiet", "vendor"], project, FETCH_TIMEOUT_S)
        (project / "vendor" / CRATE / "aeron").rename(source)
    finally:
        shutil.rmtree(project)
    return source


def _compile_all(source: Path, programs: list[Path], folder: Path) -> None:
    """Objects of client and driver, linked with the `main` of each program."""
    roots = [source / part / "src" / "main" / "c" for part in ("aeron-client", "aeron-driver")]
    compiler = ["cc", *FLAGS, *(f"-I{root}" for root in roots)]

    def compile_one(file: Path) -> Path:
        target = folder / f"{file.relative_to(source)}.o".replace("/", "_")
        _run([*compiler, "-c", str(file), "-o", str(target)], folder, COMPILE_TIMEOUT_S)
        return target

    with ThreadPoolExecutor(COMPILERS) as pool:
        client, driver = (list(pool.map(compile_one, sorted(root.rglob("*.c")))) for root in roots)
    objects = [str(target) for target in client + driver]
    _run(["cc", "-o", "aeronmd", *objects, *LIBRARIES], folder, COMPILE_TIMEOUT_S)
    for program in programs:
        libraries = [str(target) for target in client]
        _run([*compiler, str(program), *libraries, *LIBRARIES, "-o", program.stem], folder, COMPILE_TIMEOUT_S)
    for target in objects:
        Path(target).unlink()


def _run(command: list[str], folder: Path, timeout_s: float) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=patient(timeout_s),
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise PeerMissingError(f"not done within {late.timeout:g} s: {command[0]} {command[1]}") from None
    except FileNotFoundError:
        raise PeerMissingError(f"{command[0]} is not installed") from None
    if done.returncode and command[0] == "cargo":
        raise PeerMissingError(f"cargo vendor of {CRATE} {VERSION}: {done.stderr[-300:]}")
    if done.returncode:
        raise PeerFailedError(f"{' '.join(command[-3:])}: {done.stderr[-2000:]}")
