"""A Docker daemon of the tests' own, in a network namespace of its own, and the images that it needs.

Nothing comes from a registry of images: the base is made by debootstrap, and kept in build/docker.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "docker"
PROGRAMS = ("docker", "dockerd", "docker-compose", "debootstrap", "nsenter", "ip")
START_TIMEOUT_S = 60.0
BASE_RELEASE, BASE_PYTHON = "bookworm", "3.11"
BASE, COMPILER = "ordo-test/python", "ordo-test/compiler"
OFFLINE = ("--network=none", "--build-arg", "PIP_NO_INDEX=1")
NOT_NEEDED = ("var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info")
"""Left out of the base, as the slim images do."""
TOOLS_OF_BUILD = ("setuptools>=77", "cython>=3.1", "wheel")


def run(*words: str | Path, timeout_s: float = 600, env: Mapping[str, str] | None = None) -> str:
    """Returns what a command printed; fails the test with all of it when it ends with an error."""
    done = subprocess.run(
        [str(word) for word in words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
        env={**os.environ, **(env or {})},
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(map(str, words))}: {done.returncode}\n{done.stdout[-4000:]}"
    return done.stdout.strip()


def make_bases() -> None:
    """Two root file systems, once: Python as in python:slim, and the same with a compiler."""
    compiler = WORK / "compiler.tar"
    if compiler.exists():
        return
    WORK.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=WORK) as folder:
        root = Path(folder) / "root"
        run("debootstrap", "--variant=minbase", "--include=python3,python3-venv", BASE_RELEASE, root, timeout_s=1200)
        _pack(root, WORK / "runtime.tar")
        shutil.copy("/etc/resolv.conf", root / "etc" / "resolv.conf")
        run("chroot", root, "apt-get", "update", "-qq")
        packages = ("gcc", "libc6-dev", "binutils", "python3-dev")
        run("chroot", root, "apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages, timeout_s=1200)
        _pack(root, compiler)


def _pack(root: Path, archive: Path) -> None:
    run("chroot", root, "apt-get", "clean")
    for name in NOT_NEEDED:
        shutil.rmtree(root / name, ignore_errors=True)
    (root / "var/lib/apt/lists").mkdir(parents=True)
    partial = archive.with_suffix(".partial")
    run("tar", "-C", root, "-cf", partial, ".")
    partial.rename(archive)


def stage(context: Path, *sources: str) -> None:
    """A copy of what the checkout has of these folders (all of it by default), and the wheels that pip takes."""
    make_wheels()
    shutil.rmtree(context, ignore_errors=True)
    context.mkdir(parents=True)
    names = run("git", "-C", ROOT, "ls-files", "-co", "--exclude-standard", "--", *sources).splitlines()
    for name in names:
        if (ROOT / name).is_file():
            (context / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, context / name)
    shutil.copytree(WORK / "wheels", context / "wheels")


def make_wheels() -> None:
    """What pyproject.toml says that Ordo and its gateway need, and are built with, for the base's Python."""
    wheels, partial, listed = WORK / "wheels", WORK / "wheels.partial", WORK / "wheels.txt"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed: list[str] = [*project["dependencies"], *project["optional-dependencies"]["gateway"]]
    if wheels.exists() and listed.exists() and listed.read_text().splitlines() == needed:
        return
    shutil.rmtree(wheels, ignore_errors=True)
    shutil.rmtree(partial, ignore_errors=True)
    options = ("--only-binary=:all:", "--python-version", BASE_PYTHON)
    run(sys.executable, "-m", "pip", "download", "-q", "-d", partial, *options, *TOOLS_OF_BUILD, *needed)
    partial.rename(wheels)
    listed.write_text("\n".join(needed))


class Engine:
    """The daemon, and commands to it."""

    def __init__(self) -> None:
        self._namespace = f"ordo-docker-{os.getpid()}"
        self._folder = Path(tempfile.mkdtemp(prefix="ordo-docker-"))
        self._process: subprocess.Popen[bytes] | None = None
        self.environment = {"DOCKER_HOST": f"unix://{self._folder}/sock", "DOCKER_BUILDKIT": "0"}

    def start(self) -> None:
        """Layers stay in build/docker/data, so that what did not change is not built again."""
        run("ip", "netns", "add", self._namespace)
        run("ip", "-n", self._namespace, "link", "set", "lo", "up")
        command = [
            *("nsenter", f"--net=/run/netns/{self._namespace}", "dockerd"),
            *("--data-root", str(WORK / "data"), "--exec-root", str(self._folder / "exec")),
            *("--pidfile", str(self._folder / "pid"), "--host", self.environment["DOCKER_HOST"]),
        ]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not self._answers():
            text = (self._folder / "log").read_text()[-2000:]
            assert self._process.poll() is None and time.monotonic() < deadline_s, f"dockerd does not run:\n{text}"
            time.sleep(0.2)
        self._clear()

    def _clear(self) -> None:
        """Images stay; what else a run has made does not, nor what one left that was killed."""
        containers = self.docker("ps", "-aq").split()
        _ = containers and self.docker("rm", "-f", "-v", *containers)
        volumes = self.docker("volume", "ls", "-q").split()
        _ = volumes and self.docker("volume", "rm", *volumes)
        self.docker("network", "prune", "-f")

    def _answers(self) -> bool:
        environment = {**os.environ, **self.environment}
        return subprocess.run(["docker", "version"], capture_output=True, env=environment, check=False).returncode == 0

    def close(self) -> None:
        """Ends what runs, and the daemon by its id."""
        if self._process is not None and self._process.poll() is None:
            with suppress(AssertionError):  # a build that was interrupted removes its container itself
                self._clear()
            self._process.terminate()
            self._process.wait(60)
        run("ip", "netns", "delete", self._namespace)
        shutil.rmtree(self._folder, ignore_errors=True)

    def docker(self, *words: str | Path, timeout_s: float = 120) -> str:
        """Returns what a docker command printed."""
        return run("docker", *words, timeout_s=timeout_s, env=self.environment)

    def build(self, context: Path, tag: str, *options: str, file: str = "Dockerfile", wheels: str) -> str:
        """Builds an image without a network; `wheels` is where the context's wheels lie in it."""
        links = ("--build-arg", f"PIP_FIND_LINKS={wheels}")
        words: tuple[str | Path, ...] = (
            "build",
            "-q",
            "-f",
            context / file,
            "-t",
            tag,
            *OFFLINE,
            *links,
            *options,
            context,
        )
        return self.docker(*words, timeout_s=1500)

    def base(self) -> None:
        """Imports the root file systems, where they are not known yet."""
        make_bases()
        known = self.docker("images", "--format", "{{.Repository}}").split()
        for name, archive in ((BASE, "runtime.tar"), (COMPILER, "compiler.tar")):
            if name not in known:
                self.docker("import", WORK / archive, name)
