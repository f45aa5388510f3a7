"""Configuration of a node: node.toml, checked before anything starts."""

from __future__ import annotations

import getpass
import hashlib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from cluster.module.config import ClusterSettings, ModuleConfig, RetentionSettings, SnapshotSettings
from cluster.wire.members import ENDPOINT_NAMES, Member, parse_member
from runtime.config import Settings
from runtime.errors import ConfigurationError


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
    own_driver: bool = True
    service_mode: Literal["process", "inline"] = "process"
    sync: Literal["commit", "none"] = "commit"
    file_access: Literal["owner", "group", "all"] = "owner"
    spins: Annotated[int, Field(ge=0)] = 3
    rejoin: bool = False
    check_log: bool = False
    max_replays: Annotated[int, Field(ge=0, le=64)] = 4
    """How many programs may read the log from this node at a time; each takes three log terms of shared memory."""

    @model_validator(mode="after")
    def _has_driver(self) -> NodeSection:
        if not self.own_driver and self.aeron_dir is None:
            raise ValueError("own_driver = false: give aeron_dir, the folder of the running driver (`ordo driver`)")
        return self


class ServiceSection(Settings):
    """`[service]`: the ClusteredService, as `module:Class`; `--service` overrides it."""

    class_: Annotated[str | None, Field(alias="class")] = None


class NodeConfig(Settings):
    """node.toml."""

    node: NodeSection
    members: Annotated[list[MemberSection], Field(min_length=1, max_length=7)]
    cluster: ClusterSettings = ClusterSettings()
    snapshot: SnapshotSettings = SnapshotSettings()
    retention: RetentionSettings = RetentionSettings()
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
        return Path(f"/dev/shm/ordo-{getpass.getuser()}-{self.cluster.cluster_id}-{self.node.member_id}-{digest}")

    def module_config(self) -> ModuleConfig:
        """What the consensus module of this node is told."""
        return ModuleConfig(
            **dict(self.cluster),
            member_id=self.node.member_id,
            is_learner=self.node.learner,
            snapshot=self.snapshot,
            retention=self.retention,
            rejoin=self.node.rejoin,
            check_log=self.node.check_log,
        )


def load_config(path: Path) -> NodeConfig:
    """Reads node.toml. Raises ConfigurationError: one line for each wrong key, with its value and what is allowed."""
    config = NodeConfig.from_toml(path)
    config.module_config().consensus(config.member_list)
    return config
