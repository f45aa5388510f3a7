"""Configuration of a consensus module."""

from __future__ import annotations

from dataclasses import fields
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, field_validator, model_validator

from ordo.cluster.module.sessions.quota_settings import PrincipalSettings, QuotaSettings
from ordo.cluster.wire.members import Member
from ordo.consensus.state.settings import ConsensusSettings
from ordo.runtime.errors import ChannelError
from ordo.runtime.native.cluster_time import TimeUnit
from ordo.runtime.native.time_units import SECOND_NS
from ordo.runtime.settings.config import DurationNs, Settings, SizeBytes, duration_within, size_within
from ordo.sequencer.leader_ingress import ARRIVAL_OPTION, check_group

COPIES_KEPT_MIN = 2
"""A copy that cannot be loaded, which its hash does not show, leaves an older snapshot, and the log from there on."""
MEBIBYTE = 1024 * 1024
GIBIBYTE = 1024 * MEBIBYTE
TERM_LENGTH_MIN, TERM_LENGTH_MAX = 64 * 1024, 1024 * MEBIBYTE


def _power_of_two(value: int, name: str) -> None:
    if not TERM_LENGTH_MIN <= value <= TERM_LENGTH_MAX or value & (value - 1):
        raise ValueError(f"{name}={value}: allowed is a power of two from 64k to 1g")


class ClusterSettings(Settings):
    """The settings that must be the same in the file of every member."""

    cluster_id: int = Field(
        default=0, alias="id", description="Number of the cluster; tells clusters apart that share a driver."
    )
    leader_heartbeat_timeout_ns: DurationNs = Field(
        default=ConsensusSettings.leader_heartbeat_timeout_ns,
        alias="leader_heartbeat_timeout",
        description="A follower that hears nothing from its leader for so long looks for another one, and a leader that"
        " hears nothing from a quorum gives up. At least twice leader_heartbeat_interval.",
    )
    leader_heartbeat_interval_ns: DurationNs = Field(
        default=ConsensusSettings.leader_heartbeat_interval_ns,
        alias="leader_heartbeat_interval",
        description="How often a leader with nothing else to say shows that it is there.",
    )
    election_timeout_ns: DurationNs = Field(
        default=ConsensusSettings.election_timeout_ns,
        alias="election_timeout",
        description="How long one ballot of an election may take; also how long draining and handing over may take when"
        " the leadership is transferred.",
    )
    election_status_interval_ns: DurationNs = Field(
        default=ConsensusSettings.election_status_interval_ns,
        alias="election_status_interval",
        description="How often members repeat what they say during an election. At most half of election_timeout.",
    )
    startup_canvass_timeout_ns: DurationNs = Field(
        default=ConsensusSettings.startup_canvass_timeout_ns,
        alias="startup_canvass_timeout",
        description="How long a member that has just started waits for the others before it is content with a quorum.",
    )
    termination_timeout_ns: DurationNs = Field(
        default=ConsensusSettings.termination_timeout_ns,
        alias="termination_timeout",
        description="How long a shutdown of the cluster waits for the members before it ends without them.",
    )
    time_unit: Literal["ms", "us", "ns"] = Field(
        default="ms",
        description="Unit of the cluster's time, which timestamps of the log and deadlines of timers have. A log keeps"
        " the one that it was begun with, and a member with another does not start, unless `time_unit_from` says so.",
    )
    time_unit_from: Literal["", "ms", "us"] = Field(
        default="",
        description="The coarser unit that the log was begun with, where it is to go over to `time_unit`, for good:"
        " a term of this member's then begins with it, once all services convert their times (`on_time_unit`).",
    )
    clock_report_interval_ns: Annotated[DurationNs, duration_within("100ms", "1h", or_zero=True)] = Field(
        default=10 * SECOND_NS,
        alias="clock_report_interval",
        description="The leader writes into the log how well its machine's clock is known, when its term begins, and"
        " again after so long if the log has grown; 0: never.",
    )
    session_timeout_ns: Annotated[DurationNs, duration_within("1ms")] = Field(
        default=10 * SECOND_NS,
        alias="session_timeout",
        description="The session of a client that was silent for so long is closed.",
    )
    sessions_max: Annotated[int, Field(ge=1, le=200_000)] = Field(
        default=4096, alias="max_sessions", description="So many client sessions may be open at a time."
    )
    sessions_per_host_max: Annotated[int, Field(ge=0, le=200_000)] = Field(
        default=0,
        alias="max_sessions_per_host",
        description="So many of them may be of one host, which is also what a proxy or a gateway is; 0: three quarters"
        " of max_sessions, at least 64.",
    )
    sessions_per_principal_max: Annotated[int, Field(ge=0, le=200_000)] = Field(
        default=0,
        alias="max_sessions_per_principal",
        description="So many of them may be of one principal, where clients are authenticated; 0: three quarters of"
        " max_sessions, at least 64.",
    )
    operator_sessions: Annotated[int, Field(ge=-1, le=200_000)] = Field(
        default=-1,
        description="So many of max_sessions are kept for principals with the role operator; -1: a 256th of them.",
    )
    identities_per_principal_max: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        default=0,
        alias="max_identities_per_principal",
        description="So many identities of requests may one principal open within an hour, where clients are"
        " authenticated; further ones wait. 0: three quarters of the 16,384 that a service keeps.",
    )
    queries_max: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=4096, alias="max_queries", description="So many queries a member takes at a time."
    )
    egress_buffer_bytes: SizeBytes = Field(
        default=8 * MEBIBYTE,
        alias="egress_buffer",
        description="Kept for one client that takes less than it is sent; beyond it the client is disconnected, or"
        " loses the oldest messages. At least 64k.",
    )
    egress_buffer_total_bytes: SizeBytes = Field(
        default=256 * MEBIBYTE,
        alias="egress_buffer_total",
        description="Kept for all of them together. At least egress_buffer.",
    )
    service_timeout_ns: Annotated[DurationNs, duration_within("1ms")] = Field(
        default=10 * SECOND_NS,
        alias="service_timeout",
        description="A leader whose service has executed nothing for so long, though there is something to execute,"
        " hands over to a member whose service is level.",
    )
    service_backlog_bytes: Annotated[SizeBytes, size_within("4k")] = Field(
        default=4 * MEBIBYTE,
        alias="service_backlog",
        description="So much of the log may wait for the leader's service; beyond it the messages of clients wait in"
        " their streams, and are taken by turns. What is taken waits for all that was taken before it.",
    )
    appointed_leader_id: int = Field(
        default=ConsensusSettings.appointed_leader_id,
        description="Id of the only member that may stand for election; -1: any may. With it a failed leader is not"
        " replaced.",
    )
    log_term_length_bytes: SizeBytes = Field(
        default=16 * MEBIBYTE,
        alias="log_term_length",
        description="Length of one of the log's three term buffers in shared memory: a power of two from 64k to 1g. A"
        " message may be an eighth of it long.",
    )
    mtu_bytes: SizeBytes = Field(
        default=1408,
        alias="mtu",
        description="Longest datagram payload of the log: a multiple of 32 from 64 to 65504; keep it below what the"
        " network carries in one piece.",
    )
    segment_length_bytes: SizeBytes = Field(
        default=64 * MEBIBYTE,
        alias="segment_length",
        description="Length of one file of the recorded log: a power of two from 64k to 1g, at least log_term_length."
        " Old log is deleted by whole files.",
    )
    receiver_window_bytes: SizeBytes = Field(
        default=2 * MEBIBYTE,
        alias="receiver_window",
        description="How much of the log may be on its way to a follower; at least mtu, at most socket_buffer.",
    )
    socket_buffer_bytes: SizeBytes = Field(
        default=4 * MEBIBYTE,
        alias="socket_buffer",
        description="Buffers asked of the system for the log's sockets; it gives at most net.core.rmem_max and"
        " net.core.wmem_max.",
    )
    admin_requests_allowed: bool = Field(
        default=False,
        alias="admin_requests",
        description="Whether clients may ask for a snapshot (Aeron's AdminRequest).",
    )
    ingress_channel: str | None = Field(
        default=None,
        description="A multicast group that the leader takes clients' messages from, beside its own endpoint; of this"
        " cluster alone, and with a port that no member uses. Not with encryption.",
        examples=["aeron:udp?endpoint=224.20.30.39:20500|interface=10.0.0.0/24"],
    )
    ipc_ingress: bool = Field(
        default=False,
        description="Whether programs on the leader's machine may be clients through shared memory (`aeron:ipc`).",
    )
    arrival_time: bool = Field(
        default=False,
        description="Whether a leader writes into the log when each message arrived at its socket"
        " (`header.arrival_ns`). Programs that read the log have to be of a release that knows it.",
    )
    app_version: Annotated[int, Field(ge=1)] = Field(
        default=ConsensusSettings.app_version,
        description="Version of the code that [service] class names, as a number; 65536 and more is major * 65536 +"
        " minor * 256 + patch. Not used with [service] versions.",
    )

    @property
    def cluster_time_unit(self) -> TimeUnit:
        """Return what `time_unit` names."""
        return TimeUnit.named(self.time_unit)

    @property
    def former_time_unit(self) -> TimeUnit | None:
        """Return what `time_unit_from` names."""
        return TimeUnit.named(self.time_unit_from) if self.time_unit_from else None

    @field_validator("ingress_channel")
    @classmethod
    def _is_group(cls, value: str | None) -> str | None:
        try:
            return value if value is None else str(check_group(value))
        except ChannelError as error:
            raise ValueError(error.message) from None

    @model_validator(mode="after")
    def _lengths(self) -> ClusterSettings:
        _power_of_two(self.log_term_length_bytes, "log_term_length")
        _power_of_two(self.segment_length_bytes, "segment_length")
        if self.segment_length_bytes < self.log_term_length_bytes:
            raise ValueError(f"segment_length={self.segment_length_bytes}: must be at least log_term_length")
        if not 32 < self.mtu_bytes <= 65504 or self.mtu_bytes % 32:
            raise ValueError(f"mtu={self.mtu_bytes}: allowed is a multiple of 32 from 64 to 65504")
        if not TERM_LENGTH_MIN <= self.egress_buffer_bytes <= self.egress_buffer_total_bytes:
            raise ValueError(
                f"egress_buffer={self.egress_buffer_bytes}: allowed is {TERM_LENGTH_MIN} to egress_buffer_total="
                f"{self.egress_buffer_total_bytes}"
            )
        self._check_windows()
        if self.former_time_unit is not None and self.former_time_unit >= self.cluster_time_unit:
            raise ValueError(
                f'time_unit_from="{self.time_unit_from}": allowed is a coarser unit than '
                f'time_unit="{self.time_unit}", or ""'
            )
        return self

    def _check_windows(self) -> None:
        """Check that the receiver's socket buffer holds what a sender may send ahead."""
        window_bytes, buffer_bytes = self.receiver_window_bytes, self.socket_buffer_bytes
        if window_bytes < self.mtu_bytes:
            raise ValueError(f"receiver_window={window_bytes}: must be at least mtu={self.mtu_bytes}")
        if window_bytes > buffer_bytes:
            raise ValueError(f"receiver_window={window_bytes}: must be at most socket_buffer={buffer_bytes}")
        if self.ingress_channel is None:
            return
        group = check_group(self.ingress_channel)
        window_bytes, buffer_bytes = group.integer("rcv-wnd", window_bytes), group.integer("so-rcvbuf", buffer_bytes)
        if window_bytes > buffer_bytes:
            raise ValueError(f"ingress_channel: rcv-wnd={window_bytes} must be at most so-rcvbuf={buffer_bytes}")


class SnapshotSettings(Settings):
    """When the leader takes snapshots by itself, and how many each member keeps."""

    every_bytes: SizeBytes = Field(
        default=1024 * MEBIBYTE,
        description="A snapshot is taken after so much log; 0: not because of that.",
    )
    every_seconds: Annotated[int, Field(ge=0)] = Field(
        default=0, description="A snapshot is taken after so long, if the log has grown; 0: not because of that."
    )
    keep: Annotated[int, Field(ge=1, le=8)] = Field(
        default=2, description="So many of the newest snapshots stay on each member."
    )
    by: Literal["members", "standby"] = Field(
        default="members",
        description="Who takes the snapshots that are due: every member, or a standby, from which the members copy them"
        ' ("standby"; see STANDBY.md). Services must implement state_hash for that.',
    )
    standbys: tuple[str, ...] = Field(
        default=(),
        description='The ingress, IP address and port, of the standbys that are asked, where by = "standby".',
        examples=[["10.0.1.1:20000"]],
    )
    standby_patience_seconds: Annotated[int, Field(ge=1)] = Field(
        default=60,
        description="The members take their own where no standby answers for so long, or a quorum has no copy of one so"
        " long after it was ordered.",
    )
    standby_token_file: Path | None = Field(
        default=None,
        description="A file with a token that has the role log at the standbys, where they have [[tokens]].",
        examples=["/etc/ordo/standby.token"],
    )
    evidence_bytes: SizeBytes = Field(
        default=1024 * MEBIBYTE,
        description="The newest two snapshots of a member that were not those of the others stay, if they take no more"
        " than this together (`ordo cluster evidence`).",
    )

    @model_validator(mode="after")
    def _names_standbys(self) -> SnapshotSettings:
        if self.by == "standby" and not self.standbys:
            raise ValueError('by="standby": name them, standbys = ["10.0.1.1:20000"]')
        if self.by == "standby" and self.keep < COPIES_KEPT_MIN:
            raise ValueError(f'keep={self.keep}: with by="standby" allowed is {COPIES_KEPT_MIN} to 8')
        for address in self.standbys:
            host, _, port = address.rpartition(":")
            try:
                ip_address(host.strip("[]"))
                is_one = 0 < int(port) < 65536
            except ValueError:
                is_one = False
            if not is_one:
                raise ValueError(f"standbys: {address!r} is no IP address with a port, such as 10.0.1.1:20000")
        return self


class RetentionSettings(Settings):
    """How much log a member keeps at least; without `bytes` and `seconds` all of it is kept."""

    bytes: SizeBytes | None = Field(default=None, description="So much of the log's end stays.", examples=["10g"])
    seconds: Annotated[int | None, Field(ge=0)] = Field(
        default=None, description="What was written within so long stays.", examples=[604800]
    )
    patience_seconds: Annotated[int, Field(ge=0)] = Field(
        default=30, description="The log waits so long for what a member lacks that is silent."
    )
    consumer_bytes: SizeBytes = Field(
        default=GIBIBYTE,
        description="So much of the log's end waits for durable consumers that have not read it; what is older goes.",
    )


class ArchiveSettings(Settings):
    """How a member checks and keeps its recordings."""

    scrub_ns: DurationNs = Field(
        default=7 * 24 * 3600 * 1_000_000_000,
        alias="scrub",
        description="Everything is read once in so long, and what is damaged of the log is fetched from another"
        " member; 0: never.",
    )
    scrub_rate_bytes: Annotated[SizeBytes, size_within("64k")] = Field(
        default=4 * MEBIBYTE, alias="scrub_rate", description="So much is read in a second at most."
    )
    disk_low_bytes: SizeBytes = Field(
        default=128 * MEBIBYTE,
        alias="disk_low",
        description="With less room on the disk of data_dir a leader takes no more messages of clients; with a quarter"
        " of it a member records nothing more. 0: until the disk is full.",
    )
    disk_high_bytes: SizeBytes = Field(
        default=256 * MEBIBYTE,
        alias="disk_high",
        description="With so much room it takes messages again. At least disk_low.",
    )

    @model_validator(mode="after")
    def _marks(self) -> ArchiveSettings:
        if self.disk_high_bytes < self.disk_low_bytes:
            raise ValueError(f"disk_high={self.disk_high_bytes}: must be at least disk_low={self.disk_low_bytes}")
        return self


class ModuleSettings(ClusterSettings):
    """The settings of a consensus module: the cluster's, and those that differ between members."""

    model_config = ConfigDict(populate_by_name=True)

    member_id: int
    is_learner: bool = False
    bind_host: str | None = None
    """Where its endpoints listen, if that is not where others send to (`Member.bound_at`)."""
    snapshot: SnapshotSettings = SnapshotSettings()
    retention: RetentionSettings = RetentionSettings()
    archive: ArchiveSettings = ArchiveSettings()
    quotas: QuotaSettings = QuotaSettings()
    principals: tuple[PrincipalSettings, ...] = ()
    is_unsynced: bool = False
    """What is acknowledged need not be on the device."""
    rejoin: bool = False
    """An empty folder is that of a member that had one before."""
    on_error: Literal["stop", "restore"] = "stop"
    """What becomes of a member whose service raised at a record (ordo.cluster.module.versions.skips)."""
    service_count: int = 1
    """How many services a node runs (ordo.cluster.module.services.services)."""
    first_version: int = ConsensusSettings.app_version
    """What a log begins with that this member is the first to lead; NO_VERSION: it can begin none."""
    state_hash_every_bytes: int = 64 * MEBIBYTE
    """How much log lies between two hashes of the services' states (cluster.module.versions.state_hashes); 0: there
    are none."""
    check_log: bool = False
    """The whole log is checked at a start, not only what is behind the newest snapshot."""
    is_standby: bool = False
    """Its log is a copy of another cluster's, and it takes no part in consensus (ordo.standby)."""

    @property
    def receive_options(self) -> str:
        """The receive parameters of a channel URI."""
        return f"rcv-wnd={self.receiver_window_bytes}|so-rcvbuf={self.socket_buffer_bytes}"

    @property
    def ingress_options(self) -> str:
        """Return the receive parameters of a channel that clients send to."""
        return f"{self.receive_options}|{ARRIVAL_OPTION}" if self.arrival_time else self.receive_options

    def consensus(self, members: tuple[Member, ...]) -> ConsensusSettings:
        """Return the settings that consensus needs. Raises ConfigurationError on values that cannot work together."""
        names = {field.name for field in fields(ConsensusSettings)} & set(type(self).model_fields)
        return ConsensusSettings(
            **{name: getattr(self, name) for name in names},
            member_ids=tuple(member.id for member in members),
            learner_ids=(self.member_id,) if self.is_learner else (),
        )
