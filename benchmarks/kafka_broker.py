"""One real Kafka broker, in KRaft mode, from the jars of Maven's registry: fetched once, then kept."""

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
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={folder}/data
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
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


class KafkaBroker:
    """`with KafkaBroker(folder) as broker`: one broker that is its own controller, with its defaults."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._jars = kafka_jars()
        port, controller = self._ports = find_ports(2)
        self.address = f"127.0.0.1:{port}"
        self._port = port
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "server.properties").write_text(SETTINGS.format(port=port, controller=controller, folder=folder))
        self._process: subprocess.Popen[bytes] | None = None

    def _java(self, *words: str) -> list[str]:
        return ["java", "-Xms1g", "-Xmx1g", "-cp", f"{self._jars}/*", *words]

    def __enter__(self) -> Self:
        settings = str(self._folder / "server.properties")
        format_words = ("kafka.tools.StorageTool", "format", "-t", "Wm5sUWJkT3BTWjZ3cWxqdw", "-c", settings)
        log_path = self._folder / "broker.log"
        with log_path.open("wb") as log:
            subprocess.run(self._java(*format_words), stdout=log, stderr=log, check=True, timeout=patient(START_S))
            self._process = subprocess.Popen(self._java("kafka.Kafka", settings), stdout=log, stderr=log)
        deadline_s = time.monotonic() + patient(START_S)
        while not self._listens():
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                self._end()
                raise PeerMissingError(f"the broker did not start: {log_path.read_text()[-500:]}")
            time.sleep(0.2)
        return self

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        release_ports(self._ports)

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._end()
