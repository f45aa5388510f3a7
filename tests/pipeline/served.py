"""Archive folders served over loopback, each by a process of its own (`ordo archive serve`)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile

from ordo.archive.client.client import ArchiveClient
from ordo.deploy.launcher import find_ports
from ordo.runtime.errors import OrdoError
from tests.patience import patient


class ServedFolder:
    """One folder and the process that serves it, at `address`."""

    def __init__(self, folder: str, replays_max: int = 4, tokens_file: str = "", token: str = "") -> None:
        """`token`: what is shown to an archive that has a file of tokens, to see that it is there."""
        self.folder = folder
        self._credentials = token.encode()
        self.address = f"127.0.0.1:{find_ports(1)[0] + 4}"
        self._driver = tempfile.mkdtemp(prefix="ordo-served-", dir="/dev/shm")
        self._options = ["--replays-max", str(replays_max)]
        self._options += ["--tokens-file", tokens_file] if tokens_file else []
        self.start()

    def start(self) -> None:
        """Serves until `kill`; comes back when it answers."""
        command = [sys.executable, "-m", "ordo.cli", "archive", "serve", self.folder, "--control", self.address]
        command += ["--aeron-dir", os.path.join(self._driver, "driver"), *self._options]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            ArchiveClient.connect(self.address, message_timeout_s=patient(30), credentials=self._credentials).close()
        except OrdoError:
            self.close()
            raise

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        shutil.rmtree(os.path.join(self._driver, "driver"), ignore_errors=True)

    def close(self) -> None:
        if self.process.poll() is None:
            self.kill()
        shutil.rmtree(self._driver, ignore_errors=True)


def url(*served: ServedFolder) -> str:
    return "ordo://" + ",".join(one.address for one in served)
