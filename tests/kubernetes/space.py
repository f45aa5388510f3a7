"""Namespaces of the tests' own: all that is started and mounted in them ends at once."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.docker.counting import await_value
from tests.docker.engine import run

SUBNET = "10.88.0"
BRIDGE, GATEWAY = "ordo0", f"{SUBNET}.1"
FOLDERS = ("/run", "/var/lib", "/var/log")
"""Where kubelets, runtimes and network plugins leave things whatever they are told."""
INIT = "exec 3<&0; cat <&3 & echo; wait $!"
"""It ends with whoever holds its input; its `wait` reaps also the processes whose parents have gone."""


class Space:
    """A network with a bridge, mounts and processes of their own, under a first process that takes all others along."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self._first = subprocess.Popen(
            ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", INIT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._first.stdout is not None
        with self._first.stdout as said:
            said.readline()
        (self._init,) = Path(f"/proc/{self._first.pid}/task/{self._first.pid}/children").read_text().split()
        for folder in FOLDERS:
            self.run("mount", "-t", "tmpfs", "tmpfs", folder)
        self.run("ip", "link", "set", "lo", "up")
        self.run("ip", "link", "add", BRIDGE, "type", "bridge")
        self.run("ip", "link", "set", BRIDGE, "up")
        self.run("ip", "addr", "add", f"{GATEWAY}/16", "dev", BRIDGE)

    def path(self, path: Path) -> Path:
        """Where this path of the inside is outside."""
        return Path(f"/proc/{self._init}/root{path}")

    def command(self, *words: str | Path) -> list[str]:
        """What runs these words inside."""
        inside = ("nsenter", "--target", self._init, "--net", "--mount", "--pid")
        return [*inside, *map(str, words)]

    def run(self, *words: str | Path, timeout_s: float = 120) -> str:
        """Returns what the command printed; fails the test with it when the command fails."""
        return run(*self.command(*words), timeout_s=timeout_s)

    def start(self, name: str, *words: str | Path) -> None:
        """Runs until the end; what it says is in the log of its name."""
        with (self._logs / f"{name}.log").open("wb") as log:
            self._started[name] = subprocess.Popen(
                self.command(*words), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )

    def log(self, name: str) -> str:
        return (self._logs / f"{name}.log").read_text(errors="replace")

    def await_start(self, name: str, answers: Callable[[], bool]) -> None:
        """Until it answers; fails with the end of its log if it has ended, or takes too long."""

        def probe() -> bool | None:
            assert self._started[name].poll() is None, f"{name} has ended:\n{self.log(name)[-3000:]}"
            return answers() or None

        await_value(probe, name, lambda: self.log(name)[-3000:])

    def close(self) -> None:
        """Ends the first process, and with it all others."""
        assert self._first.stdin is not None
        self._first.stdin.close()
        self._first.wait(30)
        for process in self._started.values():
            process.wait(30)
