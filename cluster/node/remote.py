"""What a machine that reaches the members can know of a cluster: by opening a session, as any client does."""

from __future__ import annotations

import re
import socket
from typing import NamedTuple

from cluster.client.session import ClusterClient
from cluster.client.settings import ClientSettings
from runtime.clock import SystemClock
from runtime.errors import ClusterTimeoutError, ConfigurationError

ATTEMPT_TIMEOUT_S = 0.5
STATUS_TIMEOUT_S = 5.0
_ENDPOINT = re.compile(r"([\w.-]+|\[[0-9a-fA-F:.]+\]):(\d{1,5})")


class ClusterStatus(NamedTuple):
    """A cluster as a client finds it. Without a leader all but `has_quorum` and `reason` is unknown: -1 or empty."""

    has_quorum: bool
    """Whether a leader took a session, which it does once a quorum has it in the log."""
    leader_member_id: int
    leader_ingress: str
    leadership_term_id: int
    session_ms: float
    """How long it took to find the leader and open the session."""
    reason: str


def cluster_status(endpoints: str, *, egress: str = "", timeout_s: float = STATUS_TIMEOUT_S) -> ClusterStatus:
    """Opens a session and closes it again: two records of the log.

    `egress` is the host:port that the members answer to, by default a free port of the address that this machine uses
    towards the first member. Raises ConfigurationError, or SessionRejectedError when the cluster refuses.
    """
    members = parse_list(endpoints)
    clock = SystemClock()
    begin_ns = clock.now()
    settings = ClientSettings(
        egress_channel=f"aeron:udp?endpoint={egress or f'{_own_address(members[0])}:0'}",
        connect_timeout_s=timeout_s,
        connect_attempt_timeout_s=min(ATTEMPT_TIMEOUT_S, timeout_s),
        client_name="ordo cluster status",
    )
    try:
        with ClusterClient(members, settings=settings) as client:
            leader = client.leader_member_id
            elapsed_ms = (clock.now() - begin_ns) / 1e6
            ingress = client.ingress_endpoints.get(leader, "")
            return ClusterStatus(True, leader, ingress, client.leadership_term_id, round(elapsed_ms, 1), "")
    except ClusterTimeoutError as error:
        return ClusterStatus(False, -1, "", -1, -1, error.message)


def parse_list(endpoints: str) -> list[str]:
    """The members of `host:port,host:port`. Raises ConfigurationError."""
    found = [one.strip() for one in endpoints.split(",")]
    for one in found:
        match = _ENDPOINT.fullmatch(one)
        if match is None or not 0 < int(match[2]) < 65_536:
            raise ConfigurationError(
                f"--endpoints {endpoints}: must be the ingress of members, as 10.0.0.1:20000,10.0.0.2:20000"
            )
    return found


def _own_address(endpoint: str) -> str:
    """The address of this machine towards an endpoint, as the routes say; nothing is sent."""
    host, _, port = endpoint.rpartition(":")
    try:
        ((family, kind, _, _, address), *_) = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)
        with socket.socket(family, kind) as probe:
            probe.connect(address)
            own = str(probe.getsockname()[0])
    except OSError as error:
        raise ConfigurationError(f"--endpoints: {host} cannot be reached: {error.strerror or error}") from error
    return f"[{own}]" if family == socket.AF_INET6 else own
