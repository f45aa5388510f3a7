"""Echo sessions driven by a native client: what the cluster can do, without Python's share on the client's side."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from contextlib import ExitStack

from hdrh.histogram import HdrHistogram

from ordo.bench.loads.echo_session import TERM_LENGTH_BYTES
from ordo.bench.loads.latency import new_histogram, record
from ordo.bench.loads.load_native import EchoStream, LoadRun
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import ClientSettings
from ordo.runtime.closing import Closing
from ordo.runtime.errors import ClusterTimeoutError
from ordo.transport.client.client_transport import ClientTransport
from ordo.transport.secure.settings import Encryption


class NativeLoad(Closing):
    """`session_count` sessions of one process, on one thread, that send messages of `size_bytes` and take their echoes.

    `mtu_bytes` is that of what they send; the members' drivers say what comes back. `keys`: `key_file` and
    `trusted_file` of a client of an encrypted cluster.

    Raises ClusterTimeoutError when an echo is missing, out of order, or does not come for 20 s, and when the leader
    changes: what was on the way is lost with it, and nobody sends it again.
    """

    def __init__(
        self,
        ingress_endpoints: Mapping[int, str],
        size_bytes: int,
        session_count: int = 1,
        mtu_bytes: int = 1408,
        *,
        keys: Mapping[str, str] | None = None,
    ) -> None:
        self._stack = ExitStack()
        try:
            encryption = Encryption.chosen(**(keys or {}))
            transport = ClientTransport.embedded("bench", session_count, encryption)
            self._stack.callback(transport.close)
            self._open(transport, ingress_endpoints, size_bytes, session_count, mtu_bytes)
        except BaseException:
            self._stack.close()
            raise

    def _open(
        self,
        transport: ClientTransport,
        ingress_endpoints: Mapping[int, str],
        size_bytes: int,
        session_count: int,
        mtu_bytes: int,
    ) -> None:
        assert transport.driver is not None
        self._driver, self._clock = transport.driver, transport.clock
        term_length_bytes = max(TERM_LENGTH_BYTES // session_count, 1 << 18)
        settings = ClientSettings(
            ingress_channel=f"aeron:udp?term-length={term_length_bytes}|mtu={mtu_bytes}",
            egress_term_length_bytes=term_length_bytes,
        )
        self._streams: list[EchoStream] = []
        self._clients: list[ClusterClient] = []
        for _ in range(session_count):
            stream = EchoStream(size_bytes)
            client = ClusterClient(ingress_endpoints, settings=settings, on_message=stream, transport=transport)
            self._stack.callback(client.close)
            stream.attach(client.native)
            self._streams.append(stream)
            self._clients.append(client)

    def close(self) -> None:
        self._stack.close()

    def round_trips(self, count: int) -> HdrHistogram:
        """`count` round trips with one message on the way, in the first session."""
        return self.measured(count, 1)[1]

    def measured(self, count: int, window: int) -> tuple[int, HdrHistogram]:
        """Like `pipelined`, in the first session: ns it took in all, and how long each message took."""
        times_ns = array("q", bytes(8 * count))
        self._streams[0].measure(times_ns)
        took_ns = self._run(self._streams[:1], count, window)
        histogram = new_histogram()
        record(histogram, times_ns)
        return took_ns, histogram

    def pipelined(self, count: int, window: int) -> float:
        """Seconds for `count` messages in all, with up to `window` of them on the way, shared among the sessions."""
        sessions = len(self._streams)
        return self._run(self._streams, count // sessions, max(1, window // sessions)) / 1e9

    def sustained(self, seconds: float, count: int, window: int) -> float:
        """Return messages a second, in runs of `count` messages until `seconds` went by."""
        begin_ns, done = self._clock.now(), 0
        while (took_ns := self._clock.now() - begin_ns) < seconds * 1e9:
            self.pipelined(count, window)
            done += count
        return done * 1e9 / took_ns

    def _run(self, streams: list[EchoStream], count: int, window: int) -> int:
        term_ids = [client.leadership_term_id for client in self._clients]

        def tick() -> None:
            self.keep()
            for client, term_id in zip(self._clients, term_ids, strict=True):
                if client.leadership_term_id != term_id:
                    raise ClusterTimeoutError(f"member {client.leader_member_id} has become leader: messages were lost")

        return LoadRun(streams, self._driver, self._clock, count, window, tick).run()

    def keep(self) -> None:
        """Keep the sessions alive: call it every few milliseconds between runs."""
        for client in self._clients:
            client.poll(1)
