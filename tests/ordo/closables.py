"""Everything that a user opens and closes: opened against a cluster, used for ever, and used once.

For programs of their own, since what goes wrong there may end the process (tests/ordo/closing.py).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ordo.applications.application import Application, ApplicationSettings
from ordo.archive.client.client import ArchiveClient
from ordo.archive.client.persistent_subscription import PersistentSubscription
from ordo.archive.client.replay import ReplayStream
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cluster.client.connection.endpoints import archive_endpoint
from ordo.cluster.client.operator import OperatorClient
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import ClientSettings
from ordo.consumers.consumer import Consumer
from ordo.consumers.shared_consumer import SharedConsumer
from ordo.follow.reader import LogReader
from ordo.follow.topics.feeds import FeedReader
from ordo.ordering import Ordering
from ordo.runtime.errors import TransportError
from ordo.runtime.io.storage import FileStorage
from ordo.transport.client.client_transport import ClientTransport
from ordo.transport.driver.channels.settings import MediaDriverSettings
from ordo.transport.driver.media_driver import MediaDriver
from ordo.transport.driver.threads import DriverThreads
from ordo.transport.streams.publication import Publication
from ordo.transport.streams.subscription import Subscription

LOG_RECORDING_ID = 0
EGRESS = "127.0.0.1:0"


@dataclass
class Case:
    """One object, in use."""

    close: Callable[[], object]
    use_once: Callable[[], object]
    """Touches the cluster, the driver or the log, and returns."""
    use: Callable[[], object]
    """Does so until the object is closed, when it returns or raises an OrdoError."""
    ends_quietly: bool = False
    """`use_once` is the next step of an iteration, which ends where the object is closed."""
    kept: Any = None
    """What the object stands on, which lives as long as the case."""


def _for_ever(step: Callable[[], object]) -> Callable[[], object]:
    def run() -> None:
        while True:
            step()

    return run


def _read(opened: Any, make_iterator: Callable[[], Any] | None = None) -> Case:
    """What is iterated over: `use` reads until the end, `use_once` takes what comes next."""
    make = make_iterator or (lambda: iter(opened))

    def read_all() -> None:
        for _ in make():
            pass

    return Case(opened.close, lambda: next(make()), read_all, ends_quietly=True)


def cluster_client(endpoint: str) -> Case:
    client = ClusterClient([endpoint])
    request = lambda: client.request(b"1")  # noqa: E731
    return Case(client.close, request, _for_ever(request))


def polled_client(endpoint: str) -> Case:
    """Sends messages, and polls, without a thread that keeps the session."""
    client = ClusterClient([endpoint], settings=ClientSettings(keep_alive_thread=False))

    def send() -> None:
        client.send(b"1")
        client.poll()

    return Case(client.close, send, _for_ever(send))


def asking_client(endpoint: str) -> Case:
    client = ClusterClient([endpoint])

    def look() -> None:
        client.start_query(b"")
        client.park(0.01)
        client.poll()

    return Case(client.close, look, _for_ever(look))


def journaled_client(endpoint: str) -> Case:
    journal = f"{_folder()}-requests"
    client = ClusterClient([endpoint], settings=ClientSettings(journal=journal))
    request = lambda: client.request(b"1")  # noqa: E731
    return Case(client.close, request, _for_ever(request), kept=journal)


def operator_client(endpoint: str) -> Case:
    operator = OperatorClient([endpoint], egress=EGRESS)
    look = lambda: operator.look(1.0)  # noqa: E731
    return Case(operator.close, look, _for_ever(look))


def log_reader(endpoint: str) -> Case:
    return _read(LogReader([archive_endpoint(endpoint)]))


def feed_reader(endpoint: str) -> Case:
    return _read(FeedReader([archive_endpoint(endpoint)], "trades", from_position="oldest"))


def consumer(endpoint: str) -> Case:
    return _read(Consumer([endpoint], "alone"))


def shared_consumer(endpoint: str) -> Case:
    return _read(SharedConsumer([endpoint], "shared"))


def archive_client(endpoint: str) -> Case:
    archive = ArchiveClient.connect(archive_endpoint(endpoint))
    look = lambda: archive.list_recordings()  # noqa: E731
    return Case(archive.close, look, _for_ever(look))


def replay_stream(endpoint: str) -> Case:
    """Follows the log's recording, which is live."""
    archive = ArchiveClient.connect(archive_endpoint(endpoint))
    stream: ReplayStream = archive.open_replay(LOG_RECORDING_ID)
    case = _read(stream, stream.messages)
    case.kept = archive
    return case


def persistent_subscription(endpoint: str) -> Case:
    channel = "aeron:udp?endpoint=127.0.0.1:0"  # nothing is ever live there: all comes from the archive
    return _read(PersistentSubscription.connect(archive_endpoint(endpoint), LOG_RECORDING_ID, channel, 7))


def application(endpoint: str) -> Case:
    transport = ClientTransport.embedded("application")
    settings = ApplicationSettings(group="group", endpoints=[endpoint], folder=_folder())
    instance = Application(Ordering, settings, transport=transport, storage=FileStorage(open_lmdb))

    def work() -> None:
        if instance.work() == 0:
            transport.park(1_000_000)

    return Case(instance.close, work, _for_ever(work), kept=transport)


def _talk(transport: ClientTransport, kept: Any = None) -> Case:
    publication: Publication = transport.client.add_publication("aeron:ipc", 9)
    subscription: Subscription = transport.client.add_subscription("aeron:ipc", 9)

    def talk() -> None:
        transport.drive()
        publication.offer(b"message")
        subscription.poll(lambda payload, header: None)

    return Case(transport.close, talk, _for_ever(talk), kept=kept)


def client_transport(_: str) -> Case:
    return _talk(ClientTransport.embedded())


def client_of_threaded_driver(_: str) -> Case:
    driver = MediaDriver(MediaDriverSettings(directory=_folder(), threading_mode="shared"))
    driver.on_start()
    DriverThreads(driver).start()
    return _talk(ClientTransport.connect(driver.directory), kept=driver)


def media_driver(_: str) -> Case:
    """One that its caller works; a driver that is closed is at rest."""
    driver = MediaDriver(MediaDriverSettings(directory=_folder()))
    driver.on_start()

    def work() -> None:
        if not driver.started:
            raise TransportError("the driver was closed")
        driver.do_work(driver.clock.now())
        driver.park(driver.clock.now(), 1_000_000)

    return Case(driver.on_close, work, _for_ever(work))


def _folder() -> str:
    return f"{tempfile.mkdtemp(prefix='ordo-test-')}/folder"


CASES: dict[str, Callable[[str], Case]] = {
    one.__name__: one
    for one in (
        cluster_client,
        polled_client,
        asking_client,
        journaled_client,
        operator_client,
        log_reader,
        feed_reader,
        consumer,
        shared_consumer,
        archive_client,
        replay_stream,
        persistent_subscription,
        application,
        client_transport,
        client_of_threaded_driver,
        media_driver,
    )
}
