"""The static list of members and their endpoints (cluster-consensus.md §1.1)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from runtime.errors import ConfigurationError

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

    def encode(self) -> str:
        return ",".join((str(self.id), self.ingress, self.consensus, self.log, self.catchup, self.archive))


def parse_members(text: str) -> tuple[Member, ...]:
    """Parses `id,ingress,consensus,log,catchup,archive|...`; further values of a member (up to two) are ignored.

    Raises ConfigurationError when a member has fewer than 6 or more than 8 values.
    """
    members = []
    for entry in text.split("|"):
        values = entry.split(",")
        if not 6 <= len(values) <= 8 or not values[0].isdecimal():
            raise ConfigurationError(
                f"members: entry={entry!r} is not 'id,ingress,consensus,log,catchup,archive' with 6 to 8 values"
            )
        members.append(Member(int(values[0]), *values[1:6]))
    return tuple(members)


def encode_members(members: Iterable[Member]) -> str:
    return "|".join(member.encode() for member in members)


def ingress_endpoints(members: Iterable[Member]) -> str:
    """`id=host:port,...` in list order, as redirects and NewLeaderEvents carry it."""
    return ",".join(f"{member.id}={member.ingress}" for member in members)


def host_of(endpoint: str) -> str:
    return endpoint.rpartition(":")[0]
