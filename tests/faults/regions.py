"""Two regions, each a host of its own, joined by a long line that loses datagrams."""

from __future__ import annotations

import subprocess
import sys

from ordo.deploy.launcher import ROOT
from tests.faults.networks import Network, run

DELAY_MS = 40.0
"""In one direction: 80 ms there and back."""
LOSS = 0.01
PRIMARY, OTHER = 0, 1


class Regions(Network):
    """Host PRIMARY and host OTHER. Nothing passes between them but through a process of ours."""

    def __init__(self, delay_ms: float = DELAY_MS, loss: float = LOSS) -> None:
        self._line: subprocess.Popen[str] | None = None
        self._words = ["--delay-ms", str(delay_ms), "--loss", str(loss)]
        super().__init__(2)

    def _build(self) -> None:
        super()._build()
        hub, names = self._made[0], [f"host{host}" for host in self.hosts]
        run(["ip", "-n", hub, "-batch", "-"], "".join(f"link set {name} nomaster\n" for name in names))
        command = [sys.executable, "-P", "-m", "tests.faults.far_link", *names, *self._words]
        command = ["nsenter", f"--net=/run/netns/{hub}", "--", *command]
        self._line = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}
        )
        assert self._line.stdout is not None and self._line.stdout.readline() == "joined\n"

    def close(self) -> None:
        if self._line is not None:
            self._line.kill()
            self._line.communicate()
            self._line = None
        super().close()
