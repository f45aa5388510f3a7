"""Real Kafka brokers, in KRaft mode, from the jars of Maven's registry: fetched once, then kept."""

from __future__ import annotations

import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from ordo.deploy.launcher import find_ports, release_ports
from tests.patience import patient
from tests.peers.java_peer import run_maven
from tests.peers.peer_process import PeerMissingError, cache_folder, only_one

VERSION = "4.1.1"
START_S = 60.0
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>ordo</groupId><artifactId>kafka-broker</artifactId><version>1</version>
<dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{VERSION}</version></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>1.7.36</version></dependency>
</dependencies></project>
"""
SETTINGS = """process.roles=broker,controller
node.id={node}
controller.quorum.voters={voters}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={folder}/data
default.replication.factor={count}
min.insync.replicas={majority}
offsets.topic.replication.factor={count}
transaction.state.log.replication.factor={count}
transaction.state.log.min.isr={majority}
group.initial.rebalance.delay.ms=0
num.partitions=1
"""


def kafka_jars() -> Path:
    """Return the folder with the jars of broker and tools. Raises PeerMissingError."""
    folder = cache_folder() / f"kafka-{VERSION}"
    with only_one():
        if not (folder / "whole").is_file():
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "pom.xml").write_text(POM)
            run_maven("-f", str(folder / "pom.xml"), "dependency:copy-dependencies", f"-DoutputDirectory={folder}/jars")
            (folder / "whole").write_text("")
    return folder / "jars"


class KafkaBrokers:
    """`with KafkaBrokers(folder, 3) as brokers`: brokers that are controllers too, with their defaults.

    Each topic is on all of them, and a record is acknowledged once it is on most.
    """

    def __init__(self, folder: Path, count: int = 1) -> None:
        self._jars = kafka_jars()
        self._reserved = find_ports(2 * count)
        self._ports, controllers = self._reserved[:count], self._reserved[count:]
        self.address = ",".join(f"127.0.0.1:{port}" for port in self._ports)
        self._folders = [folder / str(node) for node in range(1, count + 1)]
        self._processes: list[subprocess.Popen[bytes]] = []
        voters = ",".join(f"{node}@127.0.0.1:{port}" for node, port in enumerate(controllers, 1))
        for node, (own, port, controller) in enumerate(zip(self._folders, self._ports, controllers, strict=True), 1):
            own.mkdir(parents=True, exist_ok=True)
            (own / "server.properties").write_text(
                SETTINGS.format(
                    node=node, voters=voters, port=port, controller=controller, folder=own, count=count,
                    majority=count // 2 + 1,
                )
            )  # fmt: skip

    @property
    def pids(self) -> list[int]:
        """The brokers' processes."""
        return [one.pid for one in self._processes]

    def _java(self, *words: str) -> list[str]:
        return ["java", "-Xms1g", "-Xmx1g", "-cp", f"{self._jars}/*", *words]

    def __enter__(self) -> Self:
        try:
            for folder in self._folders:
                self._start(folder)
            deadline_s = time.monotonic() + patient(START_S)
            while not all(map(self._listens, self._ports)):
                if any(one.poll() is not None for one in self._processes) or time.monotonic() > deadline_s:
                    logs = [(one / "broker.log").read_text()[-500:] for one in self._folders]
                    raise PeerMissingError(f"the brokers did not start: {logs}")
                time.sleep(0.2)
        except BaseException:
            self._end()
            raise
        return self

    def _start(self, folder: Path) -> None:
        settings = str(folder / "server.properties")
        format_words = ("kafka.tools.StorageTool", "format", "-t", "Wm5sUWJkT3BTWjZ3cWxqdw", "-c", settings)
        with (folder / "broker.log").open("wb") as log:
            subprocess.run(self._java(*format_words), stdout=log, stderr=log, check=True, timeout=patient(START_S))
            self._processes.append(subprocess.Popen(self._java("kafka.Kafka", settings), stdout=log, stderr=log))

    def _listens(self, port: int) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    def _end(self) -> None:
        for one in self._processes:
            one.kill()
            one.wait()
        release_ports(self._reserved)

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._end()
