"""The other standby nodes that node.toml names: which of them was promoted, and names this one as a voter.

Nodes that are not promoted yet name themselves alone. So one that names this node has begun the cluster that they were
to become, and its log, taken to its end, is what this node goes on with as one of its voters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ordo.backup.query import MemberQuery
from ordo.cluster.admin.local_member import LocalMember
from ordo.cluster.admin.member_details import parse_told_identity
from ordo.cluster.admin.remote import RemoteCluster
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.runtime.errors import OrdoError, StorageMissingError
from ordo.runtime.native.time_units import SECOND_NS
from ordo.salvage.holdings import examine
from ordo.standby.folder import read_origin
from ordo.transport.secure.settings import Encryption

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ordo.cluster.client.operator import MemberLook
    from ordo.cluster.settings.config import NodeSettings
    from ordo.cluster.wire.members import Member
    from ordo.transport.client.client import TransportClient

ASK_INTERVAL_NS = SECOND_NS // 2
ALIVE_MS = 3_000
"""A primary that was heard within so long is taken to be alive."""
SILENCE_NS_MAX = 5 * SECOND_NS
"""After so long another node is taken, if one has said the same."""


def others_of(config: NodeSettings) -> tuple[Member, ...]:
    """Return the standby nodes beside this one that become a cluster with it."""
    return tuple(one for one in config.member_list if one.id != config.node.member_id)


class Others:
    """Asks each other node, twice a second, whether its cluster has this node. `work` with each tick."""

    def __init__(self, client: TransportClient, own_id: int, others: Sequence[Member], credentials: bytes) -> None:
        self._client = client
        self._own_id = own_id
        self._addresses = [one.ingress for one in others]
        self._credentials = credentials
        self._queries: dict[str, MemberQuery] = {}
        self._due_ns = 0
        self._said_ns: dict[str, int] = {}
        """When nodes have said last that they are promoted, and name this one."""
        self.promoted = ""
        """The address of the one that is followed; empty: none was promoted."""

    def work(self, now_ns: int) -> None:
        """Run one duty cycle."""
        for address, query in list(self._queries.items()):
            query.work(now_ns)
            if query.is_done:
                self._close(address)
                if self._names_this(query):
                    self._said_ns[address] = now_ns
                    self._choose(now_ns)
        if now_ns >= self._due_ns:
            self._due_ns = now_ns + ASK_INTERVAL_NS
            for address in self._addresses:
                if address not in self._queries:
                    self._ask(address, now_ns)

    def _choose(self, now_ns: int) -> None:
        """Stay with one node while it answers: two that were promoted one after the other are two clusters."""
        said_ns = self._said_ns.get(self.promoted)
        if said_ns is None or now_ns - said_ns > SILENCE_NS_MAX:
            self.promoted = max(self._said_ns, key=lambda one: self._said_ns[one])

    def _names_this(self, query: MemberQuery) -> bool:
        answer = query.answer
        return answer is not None and self._own_id in [one.id for one in answer.members]

    def _ask(self, address: str, now_ns: int) -> None:
        try:
            self._queries[address] = MemberQuery(self._client, address, self._credentials, now_ns)
        except OrdoError:
            return  # its name is not known at the moment

    def _close(self, address: str) -> None:
        self._queries.pop(address).close()

    def close(self) -> None:
        """Give up what is asked. Idempotent."""
        for address in list(self._queries):
            self._close(address)


class Standing(NamedTuple):
    """How far one of the standby nodes has the log."""

    member_id: int
    endpoint: str
    position: int
    cluster: str
    """The identity of its log; empty: it does not know it yet."""
    is_standby: bool = True
    """False: it is a node of a cluster already."""
    heard_ms: int = -1
    """How long ago its primary answered; negative: it has not."""

    def __str__(self) -> str:
        what = f"has the log up to position={self.position}"
        if not self.is_standby:
            return f"node {self.member_id} at {self.endpoint} {what}, and is of cluster {self.cluster[:12]} already"
        heard = "" if self.heard_ms < 0 else f"; its primary answered {self.heard_ms / 1000:g} s ago"
        return f"node {self.member_id} at {self.endpoint} {what}{heard}"


def look_at_others(config: NodeSettings, credentials: bytes) -> dict[str, Standing | OrdoError]:
    """Ask the other standby nodes how far they are; by the address, or why it could not be asked."""
    addresses = [one.ingress for one in others_of(config)]
    keys = None
    if config.encryption.is_on:
        keys = Encryption(str(config.encryption.key_file), str(config.encryption.trusted_file))
    found: dict[str, Standing | OrdoError] = {}
    with RemoteCluster(",".join(addresses), credentials=credentials, encryption=keys) as cluster:
        looks = cluster.look()
        for address in addresses:
            look = looks[address]
            try:
                found[address] = look if isinstance(look, OrdoError) else _stand(cluster, address, look)
            except OrdoError as error:
                found[address] = error
    return found


def _stand(cluster: RemoteCluster, address: str, look: MemberLook) -> Standing:
    origin = parse_told_identity(cluster.describe(address))
    return Standing(
        look.get("member_id"),
        address,
        look.counter(CounterType.COMMIT_POSITION),
        "" if origin is None else origin.identity.hex(),
        look.get("is_standby") == 1,
        look.get("standby_heard_ms"),
    )


def find_own(config: NodeSettings) -> Standing:
    """Return how far this node is, whether its process runs or not. Raises OrdoError where it has no log."""
    origin, member = read_origin(config), LocalMember(config)
    try:
        position = member.counters.value(CounterType.COMMIT_POSITION)
    except StorageMissingError:
        position = examine(config).holding.end_position
    cluster = "" if origin is None else origin.identity.hex()
    return Standing(member.member_id, config.own_member.ingress, position, cluster)


def find_most(standings: Sequence[Standing]) -> Standing:
    """Return the node that has the most of the log, of equal ones the one with the lowest id.

    All have beginnings of one log. So it has everything that any of them has.
    """
    return max(standings, key=lambda one: (one.position, -one.member_id))


def find_refusal(own: Standing, others: Sequence[Standing], node_count: int, *, although_alive: bool = False) -> str:
    """Return why this node may not be promoted to be one of this many, or ''.

    `others`: those that answered. What the silent ones have is not known: where one of them has more, it cannot join.
    """
    if discord := find_discord(own, others, node_count):
        return discord
    for one in others:
        if not although_alive and 0 <= one.heard_ms < ALIVE_MS:
            return f"{one}: it is not gone, and there would be two clusters. Stop it first, or give --although-alive"
    most = find_most([own, *others])
    if most.position > own.position:
        return f"{most}, and this one up to {own.position}: give the command there"
    return ""


def find_discord(own: Standing, others: Sequence[Standing], node_count: int) -> str:
    """Return why this many nodes, of which these others answered, can become no cluster that goes on, or ''."""
    for one in others:
        if not one.is_standby:
            return f"{one}: this node joins that cluster by itself"
        if one.cluster and own.cluster and one.cluster != own.cluster:
            return (
                f"node {one.member_id} has the log of cluster {one.cluster[:12]}, and this one that of "
                f"{own.cluster[:12]}: they cannot become one cluster. Leave it out of [[members]], in each node.toml"
            )
    quorum = node_count // 2 + 1
    if len(others) + 1 < quorum:
        return (
            f"only {len(others) + 1} of the {node_count} standby nodes can be reached, and a cluster of {node_count} "
            f"needs {quorum}: start the others, or name only those in [[members]] that are left, in each node.toml"
        )
    return ""
