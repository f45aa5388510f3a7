"""Configuration of a node: node.toml, checked before anything starts."""

from __future__ import annotations

import getpass
import hashlib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from cluster.module.config import MEBIBYTE, MILLISECOND_NS, SECOND_NS, ModuleConfig
from cluster.wire.members import ENDPOINT_NAMES, Member, parse_member
from runtime.config import DurationNs, Settings, SizeBytes
from runtime.errors import ConfigurationError

TERM_LENGTH_MIN, TERM_LENGTH_MAX = 64 * 1024, 1024 * MEBIBYTE


def _power_of_two(value: int, name: str) -> None:
    if not TERM_LENGTH_MIN <= value <= TERM_LENGTH_MAX or value & (value - 1):
        raise ValueError(f"{name}={value}: allowed is a power of two from 64k to 1g")


class MemberSection(Settings):
    """`[[members]]`: a host and a first port (of ingress, consensus, log, catchup, archive), or five endpoints."""

    id: Annotated[int, Field(ge=0)]
    host: str | None = None
    port: Annotated[int | None, Field(ge=1, le=65531)] = None
    ingress: str | None = None
    consensus: str | None = None
    log: str | None = None
    catchup: str | None = None
    archive: str | None = None

    @model_validator(mode="after")
    def _has_endpoints(self) -> MemberSection:
        explicit = [getattr(self, name) for name in ENDPOINT_NAMES]
        if (self.host is None or self.port is None) and not all(explicit):
            raise ValueError("a member has host and port, or all of " + ", ".join(ENDPOINT_NAMES))
        return self

    def member(self) -> Member:
        return Member(self.id, *(self._endpoint(index, name) for index, name in enumerate(ENDPOINT_NAMES)))

    def _endpoint(self, index: int, name: str) -> str:
        explicit: str | None = getattr(self, name)
        return explicit if explicit else f"{self.host}:{(self.port or 0) + index}"


def new_member(text: str) -> Member:
    """A member from `id=host:port` (its first port) or `id=ingress,consensus,log,catchup,archive`.

    Raises ConfigurationError.
    """
    name, _, rest = text.partition("=")
    endpoints = rest.split(",")
    host, _, port = rest.rpartition(":")
    if len(endpoints) == 1 and host and port.isdecimal():
        endpoints = [f"{host}:{int(port) + index}" for index in range(len(ENDPOINT_NAMES))]
    if not name.isdecimal() or len(endpoints) != len(ENDPOINT_NAMES):
        raise ConfigurationError(f"{text!r}: a member is written ID=HOST:PORT, or ID= and five endpoints")
    return parse_member(int(name), ",".join([name, *endpoints]))


class NodeSection(Settings):
    """`[node]`: what differs between members."""

    member_id: Annotated[int, Field(ge=0)]
    data_dir: Path
    learner: bool = False
    aeron_dir: Path | None = None
    service_mode: Literal["process", "inline"] = "process"
    sync: Literal["commit", "none"] = "commit"
    spins: Annotated[int, Field(ge=0)] = 3
    rejoin: bool = False
    check_log: bool = False


class ClusterSection(Settings):
    """`[cluster]`: what all members must agree on."""

    id: int = 0
    leader_heartbeat_timeout: DurationNs = 500 * MILLISECOND_NS
    leader_heartbeat_interval: DurationNs = 50 * MILLISECOND_NS
    election_timeout: DurationNs = 250 * MILLISECOND_NS
    election_status_interval: DurationNs = 20 * MILLISECOND_NS
    startup_canvass_timeout: DurationNs = 5 * SECOND_NS
    termination_timeout: DurationNs = 10 * SECOND_NS
    session_timeout: DurationNs = 10 * SECOND_NS
    max_sessions: Annotated[int, Field(ge=1, le=1_000_000)] = 4096
    max_queries: Annotated[int, Field(ge=1, le=1_000_000)] = 4096
    appointed_leader_id: int = -1
    log_term_length: SizeBytes = 16 * MEBIBYTE
    mtu: SizeBytes = 1408
    segment_length: SizeBytes = 64 * MEBIBYTE
    receiver_window: SizeBytes = 2 * MEBIBYTE
    socket_buffer: SizeBytes = 4 * MEBIBYTE
    admin_requests: bool = False
    app_version: Annotated[int, Field(ge=1)] = 1

    @model_validator(mode="after")
    def _lengths(self) -> ClusterSection:
        _power_of_two(self.log_term_length, "log_term_length")
        _power_of_two(self.segment_length, "segment_length")
        if self.segment_length < self.log_term_length:
            raise ValueError(f"segment_length={self.segment_length}: must be at least log_term_length")
        if not 32 < self.mtu <= 65504 or self.mtu % 32:
            raise ValueError(f"mtu={self.mtu}: allowed is a multiple of 32 from 64 to 65504")
        if self.receiver_window < self.mtu:
            raise ValueError(f"receiver_window={self.receiver_window}: must be at least mtu={self.mtu}")
        return self


class ServiceSection(Settings):
    """`[service]`: the ClusteredService, as `module:Class`; `--service` overrides it."""

    class_: Annotated[str | None, Field(alias="class")] = None


class NodeConfig(Settings):
    """node.toml."""

    node: NodeSection
    members: Annotated[list[MemberSection], Field(min_length=1, max_length=7)]
    cluster: ClusterSection = ClusterSection()
    service: ServiceSection = ServiceSection()

    @model_validator(mode="after")
    def _member_listed(self) -> NodeConfig:
        ids = [member.id for member in self.members]
        if len(set(ids)) != len(ids):
            raise ValueError(f"members: ids={ids} must be different")
        if self.node.member_id not in ids:
            raise ValueError(f"node.member_id={self.node.member_id}: must be one of the members' ids {ids}")
        return self

    @property
    def member_list(self) -> tuple[Member, ...]:
        return tuple(member.member() for member in self.members)

    @property
    def own_member(self) -> Member:
        return next(member for member in self.member_list if member.id == self.node.member_id)

    @property
    def archive_dir(self) -> Path:
        return self.node.data_dir / "archive"

    @property
    def cluster_dir(self) -> Path:
        return self.node.data_dir / "cluster"

    @property
    def aeron_dir(self) -> Path:
        if self.node.aeron_dir is not None:
            return self.node.aeron_dir
        digest = hashlib.sha256(str(self.node.data_dir.resolve()).encode()).hexdigest()[:8]
        return Path(f"/dev/shm/ordo-{getpass.getuser()}-{self.cluster.id}-{self.node.member_id}-{digest}")

    def module_config(self) -> ModuleConfig:
        cluster = self.cluster
        return ModuleConfig(
            member_id=self.node.member_id,
            is_learner=self.node.learner,
            cluster_id=cluster.id,
            leader_heartbeat_timeout_ns=cluster.leader_heartbeat_timeout,
            leader_heartbeat_interval_ns=cluster.leader_heartbeat_interval,
            election_timeout_ns=cluster.election_timeout,
            election_status_interval_ns=cluster.election_status_interval,
            startup_canvass_timeout_ns=cluster.startup_canvass_timeout,
            termination_timeout_ns=cluster.termination_timeout,
            session_timeout_ns=cluster.session_timeout,
            sessions_max=cluster.max_sessions,
            queries_max=cluster.max_queries,
            appointed_leader_id=cluster.appointed_leader_id,
            log_term_length_bytes=cluster.log_term_length,
            mtu_bytes=cluster.mtu,
            receiver_window_bytes=cluster.receiver_window,
            socket_buffer_bytes=cluster.socket_buffer,
            admin_requests_allowed=cluster.admin_requests,
            app_version=cluster.app_version,
            rejoin=self.node.rejoin,
            check_log=self.node.check_log,
        )


def load_config(path: Path) -> NodeConfig:
    """Reads node.toml. Raises ConfigurationError: one line for each wrong key, with its value and what is allowed."""
    config = NodeConfig.from_toml(path)
    config.module_config().consensus(config.member_list)
    return config
