"""The log of the cluster that goes on, read from its members' archives: what a former primary's is compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordo.archive.client.settings import ArchiveClientSettings
from ordo.archive.protocol.codes import ErrorCode
from ordo.backup.query import Description, MemberQuery
from ordo.cluster.wire.known_cluster import KnownCluster
from ordo.follow.follower import LogFollower
from ordo.runtime.closing import Closing
from ordo.runtime.errors import ArchiveError, ClusterError, ClusterTimeoutError, OrdoError
from ordo.runtime.native.time_units import SECOND_NS
from ordo.transport.client.client_transport import ClientTransport

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ordo.cluster.wire.log_identity import Origin
    from ordo.transport.secure.settings import Encryption

SILENCE_S = 2.0
FRAGMENTS_PER_POLL = 256


class SuccessorLog(Closing):
    """The committed log of a running cluster; see `divergence.Successor`. Belongs to one thread."""

    def __init__(
        self, addresses: Sequence[str], credentials: bytes, encryption: Encryption | None, timeout_s: float
    ) -> None:
        """Ask the members, of which some ingress addresses are given, whose log they have, and from where on.

        Raises ClusterError where they do not say it, ClusterTimeoutError where nothing comes for `timeout_s`, and what
        the members' refusals raise.
        """
        self._timeout_ns = round(timeout_s * SECOND_NS)
        self._transport = ClientTransport.embedded("rejoin", clients_max=2, encryption=encryption)
        self._cluster = KnownCluster()
        self._follower: LogFollower | None = None
        self._lag = ""
        try:
            self.members = self._ask(addresses, credentials).members
            """The members that the cluster names."""
            self._nodes = [
                ArchiveClientSettings.at(one.archive, message_timeout_s=5.0, credentials=credentials, name="rejoin")
                for one in self.members
            ]
            self.origin, self.start_position = self._find_beginning()
        except BaseException:
            self.close()
            raise

    def _ask(self, addresses: Sequence[str], credentials: bytes) -> Description:
        problem: OrdoError | None = None
        for address in addresses:
            query = MemberQuery(self._transport.client, address, credentials, self._transport.drive())
            try:
                while not query.is_done:
                    if query.work(self._transport.drive()) == 0:
                        self._transport.park(1_000_000)
            finally:
                query.close()
            if query.answer is not None:
                return query.answer
            problem = query.problem
        assert problem is not None, "there is at least one address"
        raise problem

    def _find_beginning(self) -> tuple[Origin, int]:
        """Return whose log the members have, and where it begins."""
        follower, deadline_ns = self._follow(None), self._transport.drive() + self._timeout_ns
        while True:
            self._drive(follower)
            source = follower.source
            if source is not None and source.has_answered and self._cluster.origin is not None:
                return self._cluster.origin, source.start_position
            if self._transport.clock.now() >= deadline_ns:
                raise self._describe_silence(follower)

    def _describe_silence(self, follower: LogFollower) -> ClusterError:
        has_answered = follower.source is not None and follower.source.has_answered
        if has_answered and self._cluster.origin is None:
            return ClusterError(
                "the cluster does not say whose log it has: it, or the level of its log, is of a release without that"
            )
        return ClusterTimeoutError(f"no member sends its log: {self._lag or follower.problem or 'none answers'}")

    def messages(self, position: int) -> Iterator[tuple[int, bytes]]:
        """Yield where each committed record behind a position ends, and the record, as far as there are any now.

        Raises ClusterTimeoutError where no member that answers has come to where the cluster begins.
        """
        found = list[tuple[int, bytes]]()
        follower, self._lag = self._follow(position), ""
        heard_ns = self._transport.drive()
        while self._goes_on(follower, position):
            if follower.is_beyond:
                follower = self._follow(position)  # they may get there
            if follower.poll_records(lambda at, record: found.append((at, record)), FRAGMENTS_PER_POLL):
                yield from found
                found.clear()
                heard_ns = self._transport.clock.now()
            elif self._transport.clock.now() - heard_ns >= self._timeout_ns:
                raise self._describe_silence(follower)

    def _goes_on(self, follower: LogFollower, position: int) -> bool:
        """Run one duty cycle; return whether more may come.

        A member that lags behind the place where the cluster begins does not say where its log ends: it is left.
        """
        begin = self.origin.position
        try:
            self._drive(follower)
        except ArchiveError as error:
            if error.code != ErrorCode.INVALID_POSITION:
                raise
            self._lag = error.message
            return follower.is_beyond and position < begin  # else no record begins there, or none yet
        if follower.oldest_position is not None:
            raise ClusterError(
                f"the cluster has deleted its log up to position={follower.oldest_position} meanwhile: give the "
                "same command again"
            )
        source = follower.source
        if source is None or not 0 <= source.end_position <= (follower.position or 0):
            return True
        if source.end_position >= begin:
            return False
        self._lag = f"{source.address} has it up to position={source.end_position}, and the cluster begins at {begin}"
        follower.leave_source(self._lag)
        return True

    def _follow(self, position: int | None) -> LogFollower:
        if self._follower is not None:
            self._follower.close()
        self._follower = LogFollower(
            self._transport.client, self._nodes, position, SILENCE_S, is_from_start=True, cluster=self._cluster
        )
        return self._follower

    def _drive(self, follower: LogFollower) -> None:
        if follower.work(self._transport.drive()) == 0:
            self._transport.park(1_000_000)
        follower.check_allowed()

    def close(self) -> None:
        """End the connections. Idempotent."""
        self._transport.close(before=lambda: None if self._follower is None else self._follower.close())
