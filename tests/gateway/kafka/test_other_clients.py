"""Clients of other languages and whole products, as their registries have them: `make test SUITE=clients`."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")
pytest.importorskip("kio", reason="needs the extra kafka")

from benchmarks.kafka_broker import VERSION, kafka_jars
from ordo.deploy.launcher import find_ports, release_ports
from tests.cluster.integration.agreement import await_that
from tests.gateway.kafka.conftest import StartDoor
from tests.gateway.kafka.test_clients import Sent, read_all
from tests.patience import patient
from tests.peers.java_peer import run_maven
from tests.peers.peer_process import PeerMissingError, cache_folder, go_without, only_one

pytestmark = [pytest.mark.clients, pytest.mark.timeout(900)]
WAIT_S = 90.0
TOOLS = "org.apache.kafka.tools"
FRANZ = "github.com/twmb/franz-go/pkg/kgo@v1.20.7"
PROGRAM = Path(__file__).parent / "go" / "main.go"
SPARK_PROGRAM = Path(__file__).parent / "spark_copy.py"
SPARK_KAFKA = "4.2.0"
SPARK_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>ordo</groupId><artifactId>spark-kafka</artifactId><version>1</version>
<dependencies><dependency><groupId>org.apache.spark</groupId><artifactId>spark-sql-kafka-0-10_2.13</artifactId>
<version>{SPARK_KAFKA}</version></dependency></dependencies></project>
"""
JVM = ("-Xms64m", "-Xmx256m", "-XX:TieredStopAtLevel=1")
WORKER = """bootstrap.servers={address}
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
offset.storage.file.filename={folder}/offsets
offset.flush.interval.ms=500
listeners=http://127.0.0.1:{port}
plugin.discovery=service_load
plugin.path={jars}
"""
SINK = """name=to-file
connector.class=org.apache.kafka.connect.file.FileStreamSinkConnector
tasks.max=1
topics={topic}
file={folder}/sink.txt
consumer.override.auto.offset.reset=earliest
"""


@pytest.fixture(scope="session")
def jars() -> Path:
    """Kafka's own tools, and Connect with its sink to a file; fetched by Maven the first time."""
    try:
        folder = kafka_jars()
        with only_one():
            if not (folder / f"connect-file-{VERSION}.jar").is_file():
                artifact = f"-Dartifact=org.apache.kafka:connect-file:{VERSION}"
                run_maven("dependency:copy", artifact, f"-DoutputDirectory={folder}")
    except PeerMissingError as missing:
        go_without(missing)
    return folder


Run = Callable[..., str]


@pytest.fixture
def tool(jars: Path) -> Run:
    """Runs one of Kafka's tools to its end, and returns what it says."""

    def run(name: str, *words: str, said: str = "") -> str:
        command = ["java", *JVM, "-cp", f"{jars}/*", f"{TOOLS}.{name}", *words]
        done = subprocess.run(command, input=said, capture_output=True, text=True, timeout=patient(WAIT_S), check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_kafka_s_console_producer_consumer_and_tools(start_door: StartDoor, tool: Run, topic: str) -> None:
    address = start_door().address
    at = ("--bootstrap-server", address)
    tool("TopicCommand", *at, "--create", "--topic", topic)
    lines = [f"key-{index % 3}:value {index}" for index in range(500)]
    parsed = ("--property", "parse.key=true", "--property", "key.separator=:")
    tool("ConsoleProducer", *at, "--topic", topic, *parsed, said="\n".join(lines) + "\n")
    shown = ("--property", "print.key=true", "--property", "print.offset=true")
    group = ("--topic", topic, "--group", topic, "--from-beginning", *shown)
    first = tool("consumer.ConsoleConsumer", *at, *group, "--max-messages", "300").splitlines()
    second = tool("consumer.ConsoleConsumer", *at, *group, "--max-messages", "200").splitlines()
    wanted = ["\t".join([f"Offset:{number}", *line.split(":")]) for number, line in enumerate(lines, 1)]
    assert first == wanted[:300]
    assert second == wanted[300:], "it goes on from what was committed"
    assert topic in tool("TopicCommand", *at, "--list").splitlines()
    told = tool("consumer.group.ConsumerGroupCommand", *at, "--describe", "--group", topic)
    row = next((line.split() for line in told.splitlines() if line.split()[:2] == [topic, topic]), told)
    assert row[1:6] == [topic, "0", "501", "501", "0"], told
    ends = tool("GetOffsetShell", *at, "--topic", topic)
    assert ends.strip() == f"{topic}:0:501"


@contextmanager
def connect_at_work(jars: Path, address: str, topic: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A worker of Kafka Connect, standalone, that writes a topic into a file."""
    ports = find_ports(1)
    worker, sink, log_path = folder / "worker.properties", folder / "sink.properties", folder / "connect.log"
    worker.write_text(WORKER.format(address=address, folder=folder, port=ports[0], jars=jars))
    sink.write_text(SINK.format(topic=topic, folder=folder))
    words = ["-cp", f"{jars}/*", "org.apache.kafka.connect.cli.ConnectStandalone", str(worker), str(sink)]
    with log_path.open("ab") as log:
        process = subprocess.Popen(["java", *JVM, *words], stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        release_ports(ports)


def test_a_sink_of_kafka_connect_goes_on_from_what_it_committed(
    start_door: StartDoor, jars: Path, topic: str, tmp_path: Path
) -> None:
    address = start_door().address
    file = tmp_path / "sink.txt"
    sent = Sent(address)
    values = [b"value %d" % index for index in range(600)]

    def has(count: int) -> Callable[[], bool]:
        return lambda: file.is_file() and len(file.read_bytes().splitlines()) >= count

    sent.send(topic, values[:300])
    sent.await_all()
    with connect_at_work(jars, address, topic, tmp_path) as worker:
        await_that(has(300), "the sink to have written what was there", timeout_s=patient(WAIT_S))
        worker.terminate()  # on which it commits
        assert worker.wait(patient(WAIT_S)) in (0, 143)
    sent.send(topic, values[300:])
    sent.await_all()
    with connect_at_work(jars, address, topic, tmp_path):
        await_that(has(600), "the sink to have written the rest", timeout_s=patient(WAIT_S))
    assert file.read_bytes().splitlines() == values


@pytest.fixture(scope="session")
def franz() -> str:
    """The program with franz-go, built the first time."""
    if shutil.which("go") is None:
        pytest.skip("Go is not installed")
    digest = hashlib.sha256(FRANZ.encode() + PROGRAM.read_bytes()).hexdigest()[:16]
    folder = cache_folder() / f"franz-go-{digest}"
    with only_one():
        if not (folder / "program").is_file():
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(PROGRAM, folder)
            for words in (("mod", "init", "local/franz"), ("get", FRANZ), ("build", "-o", "program", "main.go")):
                if words[1] != "init" or not (folder / "go.mod").is_file():
                    done = subprocess.run(
                        ["go", *words], cwd=folder, capture_output=True, text=True, timeout=patient(300.0), check=False
                    )
                    assert done.returncode == 0, done.stderr
    return str(folder / "program")


def test_franz_go_produces_and_reads_in_a_group(start_door: StartDoor, franz: str, topic: str) -> None:
    address = start_door().address

    def run(verb: str, count: int) -> list[str]:
        command = [franz, verb, address, topic, str(count)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=patient(WAIT_S), check=False)
        assert done.returncode == 0, done.stdout[-300:] + done.stderr
        return done.stdout.splitlines()

    assert run("produce", 1_000) == [str(offset) for offset in range(1, 1_001)]
    wanted = [f"{index + 1}\t{index % 3}\t{index}" for index in range(1_000)]
    assert run("consume", 1_000) == wanted
    assert len(read_all(address, topic, 1_000)) == 1_000
    more = Sent(address)
    more.send(topic, [b"more"])
    more.await_all()
    assert run("consume", 1) == ["1001\t\tmore"], "it goes on from what was committed"


@pytest.fixture(scope="session")
def spark_jars() -> str:
    """Spark's source and sink for Kafka, and what they need; fetched by Maven the first time."""
    folder = cache_folder() / f"spark-kafka-{SPARK_KAFKA}"
    try:
        with only_one():
            if not (folder / "whole").is_file():
                folder.mkdir(parents=True, exist_ok=True)
                (folder / "pom.xml").write_text(SPARK_POM)
                words = ("dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={folder}/jars")
                run_maven("-f", str(folder / "pom.xml"), *words)
                (folder / "whole").write_text("")
    except PeerMissingError as missing:
        go_without(missing)
    return ",".join(str(one) for one in sorted((folder / "jars").glob("*.jar")))


def test_spark_s_own_source_and_sink(start_door: StartDoor, spark_jars: str, topic: str, tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="needs pyspark")
    address = start_door().address
    sent = Sent(address)

    def stream() -> None:
        """Copy what is new of the topic to another one, in a query of its own, from its checkpoint on."""
        words = [sys.executable, str(SPARK_PROGRAM), spark_jars, address, topic, str(tmp_path / "checkpoint")]
        done = subprocess.run(words, capture_output=True, text=True, timeout=patient(300.0), check=False)
        assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-4_000:]

    values = [b"value %d" % index for index in range(500)]
    sent.send(topic, values[:300])
    sent.await_all()
    stream()
    assert read_all(address, f"{topic}-copy", 300) == list(enumerate(values[:300], 1))
    sent.send(topic, values[300:])
    sent.await_all()
    stream()
    assert read_all(address, f"{topic}-copy", 500) == list(enumerate(values, 1))
