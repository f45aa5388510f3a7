"""The containers of services that run on the node's own thread.

Imported by a node that has such services only: one whose services have processes of their own does without what
executes the log, which takes 4 MiB.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from ordo.cluster.container.service_container import ContainerIdentity, ContainerLimits, ServiceContainer
from ordo.cluster.wire.counters.latencies import ServiceSamples
from ordo.cluster.wire.counters.traces import ServiceTraces, threshold_of
from ordo.cluster.wire.log_index.entries import FILE_NAME
from ordo.cluster.wire.log_index.writer import IndexWriter
from ordo.runtime.io.storage import FileStorage

if TYPE_CHECKING:
    from ordo.archive.archive import Archive
    from ordo.cluster.container.versions import ServiceVersions
    from ordo.cluster.settings.config import NodeSettings
    from ordo.cluster.wire.counters.latencies import Latencies
    from ordo.runtime.io.storage import Storage
    from ordo.runtime.native.clock import Clock
    from ordo.runtime.native.memory import MemoryProvider
    from ordo.service_api.service import Service
    from ordo.transport.client.client import TransportClient
    from ordo.transport.control.ring import ManyToOneRing


class InlineSeams(Protocol):
    """What containers need of the world that their node runs in."""

    @property
    def clock(self) -> Clock: ...

    @property
    def memory(self) -> MemoryProvider: ...

    @property
    def storage(self) -> Storage: ...


class InlineServices:
    """Makes the containers of a node, beside its archive and on its client."""

    def __init__(
        self,
        config: NodeSettings,
        seams: InlineSeams,
        client: TransportClient,
        archive: Archive,
        latencies: Latencies,
        traces: ManyToOneRing | None,
    ) -> None:
        self._config = config
        self._seams = seams
        self._client = client
        self._archive = archive
        self._latencies = latencies
        self._traces = traces

    def containers(self, services: Sequence[Service | ServiceVersions]) -> list[ServiceContainer]:
        """Return a container for each service, in the order of their ids."""
        return [self._container(one, service_id) for service_id, one in enumerate(services)]

    def _container(self, service: Service | ServiceVersions, service_id: int) -> ServiceContainer:
        config, cluster = self._config, self._config.cluster
        container = ServiceContainer(
            service,
            ContainerIdentity(str(config.cluster_dir), config.node.member_id, service_id, cluster.cluster_id),
            client=self._client,
            clock=self._seams.clock,
            open_recording=self._archive.follower,
            memory=self._seams.memory,
            app_version=cluster.app_version,
            limits=ContainerLimits(cluster.queries_max, cluster.egress_buffer_bytes, cluster.egress_buffer_total_bytes),
        )
        container.wakes_driver = not config.node.own_driver  # the node's own has its turn after the container
        if container.answers:
            self._measure(container)
        return container

    def _measure(self, container: ServiceContainer) -> None:
        """Set up durations, traces and the index of the log, for the service that answers queries."""
        clock = self._seams.clock
        container.set_samples(ServiceSamples(self._latencies, clock))
        if isinstance(self._seams.storage, FileStorage):
            path = f"{self._config.cluster_dir}/{FILE_NAME}"
            container.index = IndexWriter(path, container.execution.record_error)
        if self._traces is not None:
            container.traces = ServiceTraces(self._traces, clock, threshold_of(self._config.tracing.rate))
