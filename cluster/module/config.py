"""Configuration of a consensus module."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated

from pydantic import ConfigDict, Field, model_validator

from cluster.wire.members import Member
from consensus.config import ConsensusConfig
from runtime.config import DurationNs, Settings, SizeBytes

SECOND_NS = 1_000_000_000
MEBIBYTE = 1024 * 1024
TERM_LENGTH_MIN, TERM_LENGTH_MAX = 64 * 1024, 1024 * MEBIBYTE


def _power_of_two(value: int, name: str) -> None:
    if not TERM_LENGTH_MIN <= value <= TERM_LENGTH_MAX or value & (value - 1):
        raise ValueError(f"{name}={value}: allowed is a power of two from 64k to 1g")


class ClusterSettings(Settings):
    """`[cluster]` of node.toml: what all members must agree on. The aliases are its keys, whose values have units.

    Defaults of consensus itself are those of `ConsensusConfig`.
    """

    cluster_id: int = Field(default=0, alias="id")
    leader_heartbeat_timeout_ns: DurationNs = Field(
        default=ConsensusConfig.leader_heartbeat_timeout_ns, alias="leader_heartbeat_timeout"
    )
    leader_heartbeat_interval_ns: DurationNs = Field(
        default=ConsensusConfig.leader_heartbeat_interval_ns, alias="leader_heartbeat_interval"
    )
    election_timeout_ns: DurationNs = Field(default=ConsensusConfig.election_timeout_ns, alias="election_timeout")
    election_status_interval_ns: DurationNs = Field(
        default=ConsensusConfig.election_status_interval_ns, alias="election_status_interval"
    )
    startup_canvass_timeout_ns: DurationNs = Field(
        default=ConsensusConfig.startup_canvass_timeout_ns, alias="startup_canvass_timeout"
    )
    termination_timeout_ns: DurationNs = Field(
        default=ConsensusConfig.termination_timeout_ns, alias="termination_timeout"
    )
    session_timeout_ns: DurationNs = Field(default=10 * SECOND_NS, alias="session_timeout")
    sessions_max: Annotated[int, Field(ge=1, le=1_000_000)] = Field(default=4096, alias="max_sessions")
    queries_max: Annotated[int, Field(ge=1, le=1_000_000)] = Field(default=4096, alias="max_queries")
    appointed_leader_id: int = ConsensusConfig.appointed_leader_id
    log_term_length_bytes: SizeBytes = Field(default=16 * MEBIBYTE, alias="log_term_length")
    mtu_bytes: SizeBytes = Field(default=1408, alias="mtu")
    segment_length_bytes: SizeBytes = Field(default=64 * MEBIBYTE, alias="segment_length")
    receiver_window_bytes: SizeBytes = Field(default=2 * MEBIBYTE, alias="receiver_window")
    socket_buffer_bytes: SizeBytes = Field(default=4 * MEBIBYTE, alias="socket_buffer")
    admin_requests_allowed: bool = Field(default=False, alias="admin_requests")
    app_version: Annotated[int, Field(ge=1)] = ConsensusConfig.app_version

    @model_validator(mode="after")
    def _lengths(self) -> ClusterSettings:
        _power_of_two(self.log_term_length_bytes, "log_term_length")
        _power_of_two(self.segment_length_bytes, "segment_length")
        if self.segment_length_bytes < self.log_term_length_bytes:
            raise ValueError(f"segment_length={self.segment_length_bytes}: must be at least log_term_length")
        if not 32 < self.mtu_bytes <= 65504 or self.mtu_bytes % 32:
            raise ValueError(f"mtu={self.mtu_bytes}: allowed is a multiple of 32 from 64 to 65504")
        if self.receiver_window_bytes < self.mtu_bytes:
            raise ValueError(f"receiver_window={self.receiver_window_bytes}: must be at least mtu={self.mtu_bytes}")
        return self


class SnapshotSettings(Settings):
    """`[snapshot]` of node.toml: when the leader has snapshots taken by itself; how many each member keeps at least.

    0 for `every_bytes` or `every_seconds`: not because of that.
    """

    every_bytes: SizeBytes = 1024 * MEBIBYTE
    every_seconds: Annotated[int, Field(ge=0)] = 0
    keep: Annotated[int, Field(ge=1, le=8)] = 2


class RetentionSettings(Settings):
    """`[retention]` of node.toml: how much log a member keeps at least; without `bytes` and `seconds`, all of it.

    `patience_seconds`: how long the log waits for what a member lacks that is silent.
    """

    bytes: SizeBytes | None = None
    seconds: Annotated[int | None, Field(ge=0)] = None
    patience_seconds: Annotated[int, Field(ge=0)] = 30


class ModuleConfig(ClusterSettings):
    """What a consensus module is told: the cluster's settings, and what differs between members."""

    model_config = ConfigDict(populate_by_name=True)

    member_id: int
    is_learner: bool = False
    snapshot: SnapshotSettings = SnapshotSettings()
    retention: RetentionSettings = RetentionSettings()
    rejoin: bool = False
    """An empty folder is that of a member that had one before."""
    check_log: bool = False
    """The whole log is checked at a start, not only what is behind the newest snapshot."""

    @property
    def receive_options(self) -> str:
        """The receive parameters of a channel URI."""
        return f"rcv-wnd={self.receiver_window_bytes}|so-rcvbuf={self.socket_buffer_bytes}"

    def consensus(self, members: tuple[Member, ...]) -> ConsensusConfig:
        """The settings that consensus needs. Raises ConfigurationError on values that cannot work together."""
        names = {field.name for field in fields(ConsensusConfig)} & set(type(self).model_fields)
        return ConsensusConfig(
            **{name: getattr(self, name) for name in names},
            member_ids=tuple(member.id for member in members),
            learner_ids=(self.member_id,) if self.is_learner else (),
        )
