"""Members and their endpoints (cluster-consensus.md §1.1)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ordo.runtime.errors import ConfigurationError
from ordo.transport.control.commands import IPC_IDENTITY

ENDPOINT = re.compile(r"[\w.\-:\[\]%]+:\d{1,5}", re.ASCII)
SEPARATOR = "|"
"""Between one member and the next."""
ENDPOINT_NAMES = ("ingress", "consensus", "log", "catchup", "archive")


@dataclass(frozen=True)
class Member:
    """One member; each endpoint is `host:port`."""

    id: int
    ingress: str
    consensus: str
    log: str
    catchup: str
    archive: str

    def bound_at(self, host: str | None) -> Member:
        """Return the endpoints that the member listens on: at this host, by default those that others send to."""
        if host is None:
            return self
        ports = (getattr(self, name).rpartition(":")[2] for name in ENDPOINT_NAMES)
        return Member(self.id, *(f"{host}:{port}" for port in ports))

    @property
    def ports(self) -> set[int]:
        """Where it listens."""
        return {int(getattr(self, name).rpartition(":")[2]) for name in ENDPOINT_NAMES}

    def encode(self) -> str:
        return ",".join((str(self.id), self.ingress, self.consensus, self.log, self.catchup, self.archive))


def parse_members(text: str) -> tuple[Member, ...]:
    """Parse `id,ingress,consensus,log,catchup,archive|...`; further values of a member (up to two) are ignored.

    Raises ConfigurationError when a member has fewer than 6 or more than 8 values.
    """
    members = []
    for entry in text.split(SEPARATOR):
        values = entry.split(",")
        if not 6 <= len(values) <= 8 or not values[0].isdecimal():
            raise ConfigurationError(
                f"members: entry={entry!r} is not 'id,ingress,consensus,log,catchup,archive' with 6 to 8 values"
            )
        members.append(Member(int(values[0]), *values[1:6]))
    return tuple(members)


def parse_member(member_id: int, text: str) -> Member:
    """One member as another process tells of it. Raises ConfigurationError when it has another id, or is none."""
    members = parse_members(text)
    if len(members) != 1 or members[0].id != member_id:
        raise ConfigurationError(f"member {member_id} is told of as {text!r}")
    for endpoint in (getattr(members[0], name) for name in ENDPOINT_NAMES):
        if not ENDPOINT.fullmatch(endpoint):
            raise ConfigurationError(f"member {member_id}: endpoint={endpoint!r} is not host:port")
    return members[0]


def encode_members(members: Iterable[Member]) -> str:
    return SEPARATOR.join(member.encode() for member in members)


def ingress_endpoints(members: Iterable[Member]) -> str:
    """`id=host:port,...` in list order, as redirects and NewLeaderEvents carry it."""
    return ",".join(f"{member.id}={member.ingress}" for member in members)


def host_of(endpoint: str) -> str:
    """Return the host of `host:port`, also where that identifies the source of an image.

    Empty for one over shared memory.
    """
    if endpoint == IPC_IDENTITY:
        return ""
    return endpoint.rpartition(":")[0]
