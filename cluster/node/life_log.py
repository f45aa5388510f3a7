"""The lines that a node writes into its process's log when it has started and when it ends."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Any

from ordo.cluster.settings.config import NodeSettings
from ordo.cluster.wire.members import ENDPOINT_NAMES
from ordo.runtime.errors import TransportError
from ordo.runtime.version import VERSION
from ordo.transport.resolver import resolve
from ordo.transport.secure.keys import public_text, read_secret

MEGABYTE = 1024 * 1024


def log_start(config: NodeSettings, log: Any) -> None:
    """Log the start, and a warning if other machines can reach its endpoints."""
    node, cluster, own = config.node, config.cluster, config.own_member
    log.info(
        "node.start",
        version=VERSION,
        member_id=node.member_id,
        cluster_id=cluster.cluster_id,
        members=[member.id for member in config.member_list],
        **{name: getattr(own, name) for name in ENDPOINT_NAMES},
        data_dir=_full(node.data_dir),
        archive_dir=_full(config.archive_dir),
        cluster_dir=_full(config.cluster_dir),
        aeron_dir=_full(config.aeron_dir),
        sync=node.sync,
        file_access=node.file_access,
        service_mode=node.service_mode,
        own_driver=node.own_driver,
        encryption=_public_key(config),
        max_sessions=cluster.sessions_max,
        max_queries=cluster.queries_max,
        max_replays=node.max_replays,
        max_subscribers=node.subscribers_max,
        log_term_length_mb=cluster.log_term_length_bytes / MEGABYTE,
        segment_length_mb=cluster.segment_length_bytes / MEGABYTE,
        metrics=None if config.metrics.port is None else f"{config.metrics.host}:{config.metrics.port}",
    )
    exposed = exposed_endpoints(config)
    if exposed and not config.encryption.is_on:
        log.warning(
            "node.exposed",
            member_id=node.member_id,
            endpoints=exposed,
            text="datagrams are neither encrypted nor authenticated: who reaches or reads this network can read all"
            " messages, forge them and open sessions; give every node and client an [encryption] block, or keep it to a"
            " network that you trust (docs/SECURITY.md)",
        )


def log_stop(config: NodeSettings, log: Any, reason: str, *, has_failed: bool) -> None:
    """Log the last line of a node: why it ends."""
    write = log.error if has_failed else log.info
    write("node.stop", member_id=config.node.member_id, reason=reason)


def exposed_endpoints(config: NodeSettings) -> list[str]:
    """Return this member's endpoints that are not on loopback; a name that does not resolve counts as such."""
    found = (str(getattr(config.bound_member, name)) for name in ENDPOINT_NAMES)
    return [endpoint for endpoint in found if not _is_loopback(endpoint.rpartition(":")[0].strip("[]"))]


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(resolve(host)).is_loopback
    except (TransportError, ValueError):
        return False


def _public_key(config: NodeSettings) -> str:
    """Return this node's public key, or say that nothing is encrypted."""
    if not config.encryption.is_on:
        return "none" if config.node.own_driver else "as its driver has it"
    return public_text(read_secret(str(config.encryption.key_file)).public)


def _full(path: Path) -> str:
    return str(path.absolute())
