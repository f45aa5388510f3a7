"""Greedy neighbours of a cluster and of its gateway, and visitors that must get in beside them.

As in accidents.py each kind is a generator of steps: it ends once a hog has all that it can get, and visitors were
served all the same. The hog stays until the next one of its kind, or the end, whatever else goes wrong then.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ordo.deploy.launcher import ROOT
from tests.cluster.integration.agreement import errors_of
from tests.faults.accidents import Accidents, Steps
from tests.faults.hogs import CLIENT_TOKEN
from tests.faults.lab import Lab
from tests.gateway.conftest import GatewayProcess
from tests.gateway.console.conftest import console_of

KINDS_OF_NEIGHBOURS = ("session hog", "identity hog", "console hog")
STRANGERS = 4
"""Hosts behind that of the clients: the gateway's, and one for each kind of hog."""
REFUSALS = {
    "session hog": "concurrent session limit",
    "identity hog": "",
    "console hog": "connections were closed",
}


class Program:
    """A program of hogs.py, on a host."""

    def __init__(self, lab: Lab, host: int, words: Sequence[str], log_path: Path) -> None:
        command = [*lab.network.prefix(host), sys.executable, "-m", "tests.faults.hogs", *words]
        self._log_path = log_path
        with log_path.open("wb") as log:
            self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    @property
    def said(self) -> str:
        return self._log_path.read_text(errors="replace")

    def has_said(self, word: str) -> bool:
        """Whether a line begins with a word; the program runs, or has ended well."""
        assert self._process.poll() in (None, 0), self.said
        return any(line.startswith(f"{word} ") for line in self.said.splitlines())

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


class Neighbours:
    """`begin` gives the steps of a kind. `seen` says what came of each; `close` ends all."""

    def __init__(self, lab: Lab, accidents: Accidents) -> None:
        self.lab = lab
        self.seen: list[str] = accidents.seen
        self._steps = accidents
        self._hogs: dict[str, Program] = {}
        self._gateway: GatewayProcess | None = None
        self._folder = lab.cluster.root.with_name("neighbours")
        self._folder.mkdir(exist_ok=True)
        self._visits = 0

    def begin(self, kind: str) -> Steps:
        """`kind` is one of KINDS_OF_NEIGHBOURS."""
        steps: Steps = getattr(self, "_" + kind.replace(" ", "_"))(kind)
        return steps

    def close(self) -> None:
        for hog in self._hogs.values():
            hog.close()
        self._hogs.clear()
        if self._gateway is not None:
            self._gateway.kill()
            self._gateway = None

    def _host(self, kind: str) -> int:
        """The host of a kind of hog; with an empty one that of the gateway."""
        first = len(self.lab.cluster.member_ids) + 1
        return first + 1 + KINDS_OF_NEIGHBOURS.index(kind) if kind else first

    def _session_hog(self, kind: str) -> Steps:
        """One host opens all sessions that it can get."""
        yield from self._hold(kind, ["sessions", *self._cluster_words(self._host(kind))])
        yield from self._visit(kind, ["cluster", *self._cluster_words(len(self.lab.cluster.member_ids))])

    def _identity_hog(self, kind: str) -> Steps:
        """One principal opens all identities that it can get: the leader's errors say so."""
        yield from self._hold(kind, ["identities", *self._cluster_words(self._host(kind))])
        cluster = self.lab.cluster
        yield from self._steps.until(
            lambda: any("'hog' has opened" in errors_of(cluster, one) for one in cluster.member_ids), "a leader says so"
        )
        yield from self._visit(kind, ["cluster", *self._cluster_words(len(cluster.member_ids))])

    def _console_hog(self, kind: str) -> Steps:
        """Connections to the console that say half a header and stay: each is closed, and others are served."""
        gateway = self._gateway or self._start_gateway()
        self._gateway = gateway
        host, _, port = console_of(gateway).rpartition(":")
        yield from self._hold(kind, ["console", host, port])
        refused = gateway.await_event("gateway.console-refused")
        assert refused["address"] == self.lab.network.address(self._host(kind)), refused
        yield from self._visit(kind, ["gateway", gateway.address, f"{host}:{port}"])

    def _start_gateway(self) -> GatewayProcess:
        token = self._folder / "clients.token"
        token.write_text(CLIENT_TOKEN)
        address = self.lab.network.address(self._host(""))
        return GatewayProcess(
            self.lab.cluster,
            self._folder / "gateway.log",
            *("--token-file", str(token), "--egress", f"{address}:0", "--console", f"{address}:0"),
            listen=f"{address}:0",
            prefix=self.lab.network.prefix(self._host("")),
        )

    def _cluster_words(self, host: int) -> list[str]:
        return [",".join(self.lab.cluster.ingress_endpoints.values()), self.lab.network.address(host)]

    def _hold(self, kind: str, words: Sequence[str]) -> Steps:
        """A new hog of this kind, until it has all that it can get."""
        if (former := self._hogs.pop(kind, None)) is not None:
            former.close()
        hog = Program(self.lab, self._host(kind), words, self._folder / f"{words[0]}.log")
        self._hogs[kind] = hog
        yield from self._steps.until(lambda: hog.has_said("FULL"), f"the {kind} has all that it gets: {hog.said}")
        assert REFUSALS[kind] in hog.said, hog.said

    def _visit(self, kind: str, words: Sequence[str]) -> Steps:
        """Somebody else gets in within the time of a visitor."""
        self._visits += 1
        host = len(self.lab.cluster.member_ids)
        visitor = Program(self.lab, host, words, self._folder / f"visit-{self._visits}.log")
        try:
            yield from self._steps.until(lambda: visitor.has_said("IN"), f"a visitor beside the {kind}")
            self.seen.append(f"{kind}: a visitor was in after {visitor.said.split()[-1]} s")
        finally:
            visitor.close()
