"""Archives that are served, and clients of them, on simulated hosts in one thread and virtual time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from ordo.archive.archive import Archive
from ordo.archive.client.control_requests import Call
from ordo.archive.client.session import ArchiveSession, SignalEvent
from ordo.archive.client.settings import ArchiveClientSettings
from ordo.archive.control.access import AccessPolicy
from ordo.archive.control.conductor import ControlConductor
from ordo.archive.control.settings import ControlSettings
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.runtime.io.storage import FileStorage
from ordo.transport.client.client import TransportClient
from tests.transport.driver_world import Node, World

SEGMENT_LENGTH = 64 * 1024
ResultT = TypeVar("ResultT")


class Server:
    """A host whose archive is served on port 8010 and over IPC."""

    def __init__(
        self, world: ControlWorld, address: str, folder: Path, access: AccessPolicy | None, settings: dict[str, Any]
    ) -> None:
        self.node: Node = world.node(address)
        self.errors: list[Exception] = []
        self.archive = Archive(
            str(folder),
            storage=FileStorage(open_lmdb),
            clock=world.clock,
            client=self.node.client,
            sync="none",
            segment_length_bytes=SEGMENT_LENGTH,
            low_space_bytes=0,
        )
        self.conductor = ControlConductor(
            self.archive,
            self.node.client,
            world.random.stream(address),
            ControlSettings(control_channel=f"aeron:udp?endpoint={address}:8010", **settings),
            access=access,
            on_error=self.errors.append,
        )
        self.conductor.on_start()

    def work(self, now_ns: int) -> None:
        self.conductor.do_work(now_ns)
        self.archive.do_work(now_ns)


class Caller:
    """A client session; `call` runs the world until its archive has answered."""

    def __init__(self, world: ControlWorld, client: TransportClient, settings: ArchiveClientSettings) -> None:
        self.world = world
        self.client = client
        self.signals: list[SignalEvent] = []
        self.session = ArchiveSession(client, settings, world.clock.now(), self.signals.append)

    def connected(self) -> Caller:
        self.world.until(lambda: self.session.is_connected or self.session.error)
        if self.session.error is not None:
            raise self.session.error
        return self

    def call(self, call: Call[ResultT]) -> ResultT:
        """Raises what the archive answers."""
        reply = self.session.request(call.message, item_count_max=call.item_count_max, **call.fields)
        self.world.until(lambda: reply.is_done, timeout_ns=20_000_000_000)
        if reply.error is not None:
            raise reply.error
        return call.convert(reply)

    def signal_names(self) -> list[str]:
        return [signal.signal.name for signal in self.signals]


class ControlWorld(World):
    """A world whose archives and sessions work in every cycle."""

    def __init__(self, folder: Path, **options: Any) -> None:
        super().__init__(**options)
        self.folder = folder
        self.servers: list[Server] = []
        self.callers: list[Caller] = []

    def server(self, address: str = "10.0.0.1", access: AccessPolicy | None = None, **settings: Any) -> Server:
        self.servers.append(Server(self, address, self.folder / address, access, settings))
        return self.servers[-1]

    def caller(self, client: TransportClient, control: str, response: str, **settings: Any) -> Caller:
        """A session that is being opened."""
        made = ArchiveClientSettings(control_channel=control, response_channel=response, **settings)
        self.callers.append(Caller(self, client, made))
        return self.callers[-1]

    def remote_caller(self, server: Server, address: str = "10.0.0.9", **settings: Any) -> Caller:
        """A session from another host, over UDP."""
        node = next((node for node in self.nodes if node.address == address), None) or self.node(address)
        control = f"aeron:udp?endpoint={server.node.address}:8010"
        return self.caller(node.client, control, f"aeron:udp?endpoint={address}:0", **settings).connected()

    def local_caller(self, server: Server) -> Caller:
        """A session of the archive's own host, over IPC."""
        return self.caller(server.node.new_client(), "aeron:ipc", "aeron:ipc").connected()

    def cycle(self) -> None:
        super().cycle()
        now_ns = self.clock.now()
        for server in self.servers:
            server.work(now_ns)
        for caller in self.callers:
            if not caller.client.is_closed:
                caller.client.do_work(now_ns)
                caller.session.work(now_ns)

    def send(self, publication: Any, payloads: list[bytes]) -> None:
        for payload in payloads:
            while publication.offer(payload) <= 0:
                self.cycle()

    def collect(self, subscription: Any, is_done: Callable[[list[bytes]], object]) -> list[bytes]:
        """What a subscription gets until it is enough."""
        got: list[bytes] = []

        def poll() -> object:
            subscription.poll_messages(lambda payload, _: got.append(payload), 100)
            return is_done(got)

        self.until(poll)
        return got

    def close(self) -> None:
        for caller in self.callers:
            caller.session.close()
        for server in self.servers:
            server.conductor.on_close()
            server.archive.close()
        super().close()
