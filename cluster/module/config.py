"""Configuration of a consensus module."""

from __future__ import annotations

from cluster.wire.members import Member
from consensus.config import ConsensusConfig
from runtime.config import Settings

MILLISECOND_NS = 1_000_000
SECOND_NS = 1_000 * MILLISECOND_NS
MEBIBYTE = 1024 * 1024


class ModuleConfig(Settings):
    """What a consensus module is told; times in ns, lengths in bytes."""

    member_id: int
    is_learner: bool = False
    cluster_id: int = 0
    leader_heartbeat_timeout_ns: int = 500 * MILLISECOND_NS
    leader_heartbeat_interval_ns: int = 50 * MILLISECOND_NS
    election_timeout_ns: int = 250 * MILLISECOND_NS
    election_status_interval_ns: int = 20 * MILLISECOND_NS
    startup_canvass_timeout_ns: int = 5 * SECOND_NS
    termination_timeout_ns: int = 10 * SECOND_NS
    session_timeout_ns: int = 10 * SECOND_NS
    sessions_max: int = 4096
    queries_max: int = 4096
    appointed_leader_id: int = -1
    log_term_length_bytes: int = 16 * MEBIBYTE
    mtu_bytes: int = 1408
    receiver_window_bytes: int = 2 * MEBIBYTE
    socket_buffer_bytes: int = 4 * MEBIBYTE
    admin_requests_allowed: bool = False
    app_version: int = 1
    rejoin: bool = False
    """An empty folder is that of a member that had one before."""
    check_log: bool = False
    """The whole log is checked at a start, not only what is behind the newest snapshot."""

    @property
    def receive_options(self) -> str:
        return f"rcv-wnd={self.receiver_window_bytes}|so-rcvbuf={self.socket_buffer_bytes}"

    def consensus(self, members: tuple[Member, ...]) -> ConsensusConfig:
        return ConsensusConfig(
            member_id=self.member_id,
            member_ids=tuple(member.id for member in members),
            learner_ids=(self.member_id,) if self.is_learner else (),
            leader_heartbeat_timeout_ns=self.leader_heartbeat_timeout_ns,
            leader_heartbeat_interval_ns=self.leader_heartbeat_interval_ns,
            election_timeout_ns=self.election_timeout_ns,
            election_status_interval_ns=self.election_status_interval_ns,
            startup_canvass_timeout_ns=self.startup_canvass_timeout_ns,
            termination_timeout_ns=self.termination_timeout_ns,
            appointed_leader_id=self.appointed_leader_id,
            app_version=self.app_version,
        )
