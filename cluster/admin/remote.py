"""A running cluster from any machine that reaches its members, which are known by their ingress endpoints."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ordo.cluster.admin import orders
from ordo.cluster.client.connection.endpoints import ENDPOINT, own_address, parse_list
from ordo.cluster.client.operator import MemberLook, OperatorClient, parse_look, parse_object
from ordo.cluster.monitoring.counter_values import NodeStatus, counter_name, has_quorum, status_of
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.counters.counter_types import CounterType, NodeRole
from ordo.cluster.wire.ordo_codecs import OperatorOrder
from ordo.consensus.state.states import ElectionState
from ordo.runtime.closing import Closing
from ordo.runtime.errors import (
    ClusterTimeoutError,
    ConfigurationError,
    DecodeError,
    NoQuorumError,
    NotPermittedError,
    OrdoError,
)
from ordo.transport.client.client_transport import ClientTransport

if TYPE_CHECKING:
    from ordo.cluster.admin.member_details import HeldError, HeldSnapshot, MemberDetails
    from ordo.cluster.module.state.state_store import Evidence, Skip
    from ordo.runtime.sbe import Message
    from ordo.transport.secure.settings import Encryption

ATTEMPT_TIMEOUT_S = 0.5
LOOK_TIMEOUT_S = 1.0
ANSWER_TIMEOUT_S = 5.0
GONE_TIMEOUT_S = 3.0
STATUS_TIMEOUT_S = 5.0


class RemoteCluster(Closing):
    """The members of a cluster, of which some endpoints are known. A context; leaving it closes the connections.

    Raises ConfigurationError for endpoints that are none, or not to be reached; besides, what OperatorClient raises.
    """

    def __init__(
        self, endpoints: str, *, credentials: bytes = b"", egress: str = "", encryption: Encryption | None = None
    ) -> None:
        """Connect to the members.

        `egress` is the host:port that members answer to, by default a free port of the address that this machine uses
        towards the first of them. Without `encryption` the environment says whether datagrams are encrypted.
        """
        members = parse_list(endpoints)
        if egress:
            parse_list(egress, "--egress")
        address = egress or f"{own_address(members[0])}:0"
        transport = ClientTransport.embedded("operator", encryption=encryption)
        self._client = OperatorClient(members, egress=address, credentials=credentials, transport=transport)

    def look(self, timeout_s: float = LOOK_TIMEOUT_S) -> dict[str, MemberLook | OrdoError]:
        """Return what every member knows of itself, by its ingress, or why it could not be asked.

        Learns of those that no endpoint was given for.
        """
        found = self._client.look(timeout_s)
        if self._learn(found, timeout_s):
            found = self._client.look(timeout_s)
        return found

    def look_at(self, endpoint: str, timeout_s: float = LOOK_TIMEOUT_S) -> MemberLook | OrdoError:
        """Return what one node that was given knows of itself, or why it could not be asked."""
        return self._client.look(timeout_s)[endpoint]

    def describe(self, endpoint: str, timeout_s: float = LOOK_TIMEOUT_S) -> dict[str, Any]:
        """Return a member's newest terms, snapshots, sessions and errors (cluster.module.operators.member_report).

        Not yet checked.
        """
        return parse_object(self._client.request(endpoint, OperatorOrder.DETAILS, timeout_s=timeout_s).payload)

    def list_evidence(self, timeout_s: float = LOOK_TIMEOUT_S) -> list[tuple[int, Evidence]]:
        """Return the evidence that the answering members keep because a quorum had another state, with their ids.

        Raises NoQuorumError when none answers, NotPermittedError when those that could be asked refuse the credentials;
        so do the two methods below.
        """
        from ordo.cluster.admin.stored_evidence import parse_evidence

        found = [(one, parse_evidence(told.get("evidence", []))) for one, told in self._describe_all(timeout_s)]
        return [(member_id, one) for member_id, rows in found for one in rows]

    def list_snapshots(self, timeout_s: float = LOOK_TIMEOUT_S) -> list[tuple[int, HeldSnapshot]]:
        """Return the whole snapshots of the members that answer, with their ids; of each member the newest last."""
        from ordo.cluster.admin.member_details import parse_details

        found = [(one, parse_details(told).snapshots) for one, told in self._describe_all(timeout_s)]
        return [(member_id, one) for member_id, rows in found for one in rows]

    def find_details(self, member_id: int, timeout_s: float = LOOK_TIMEOUT_S) -> MemberDetails:
        """Return the details of one member. Raises ConfigurationError if no answering member has this id."""
        from ordo.cluster.admin.member_details import parse_details

        members = self._find_all(timeout_s)
        if member_id not in members:
            raise ConfigurationError(
                f"member {member_id}: those that answer are {', '.join(map(str, sorted(members)))}"
            )
        return parse_details(self.describe(members[member_id], timeout_s))

    def _describe_all(self, timeout_s: float) -> list[tuple[int, dict[str, Any]]]:
        return [(one, self.describe(to, timeout_s)) for one, to in sorted(self._find_all(timeout_s).items())]

    def _find_all(self, timeout_s: float) -> dict[int, str]:
        """Return the ingress of every member that answers, by its id."""
        looks = self.look(timeout_s)
        check_permission(looks)
        found = {look.get("member_id"): endpoint for endpoint, look in looks.items() if isinstance(look, MemberLook)}
        if not found:
            raise NoQuorumError(f"no member answers: {describe_trouble(looks)}")
        return found

    def _learn(self, found: dict[str, MemberLook | OrdoError], timeout_s: float) -> bool:
        """Ask one member who the others are. Returns whether there are more than were known."""
        known = len(self._client.endpoints)
        looks = [(endpoint, look) for endpoint, look in found.items() if isinstance(look, MemberLook)]
        for endpoint, look in looks[:1]:
            with suppress(OrdoError):
                members = orders.ask_members(RemoteMember(self._client, endpoint, look.get("member_id")), timeout_s)
                for one in (*members.active_members, *members.passive_members):
                    self._add(one.ingress_endpoint, found, one.member_id)
        return len(self._client.endpoints) > known

    def _add(self, endpoint: str, found: dict[str, MemberLook | OrdoError], member_id: int) -> None:
        """One that the cluster names, unless it has answered under another name."""
        answered = {look.get("member_id") for look in found.values() if isinstance(look, MemberLook)}
        if member_id not in answered and ENDPOINT.fullmatch(endpoint):
            self._client.add(endpoint)

    def find_leader(self, timeout_s: float = STATUS_TIMEOUT_S) -> RemoteMember:
        """Return the member that leads.

        Raises NoQuorumError when none does within the time, NotPermittedError when all that could be asked refuse the
        credentials.
        """
        deadline = orders.Deadline(timeout_s)
        while True:
            left_s = deadline.left_s
            found = self._client.look(
                max(ATTEMPT_TIMEOUT_S, min(LOOK_TIMEOUT_S, left_s)), lambda looks: leader_of(looks) is not None
            )
            leader = leader_of(found)
            if leader is not None:
                look = found[leader]
                assert isinstance(look, MemberLook)
                return RemoteMember(self._client, leader, look.get("member_id"))
            check_permission(found)
            if deadline.is_over:
                raise NoQuorumError(f"no quorum: {describe_trouble(found)}")
            self._learn(found, ATTEMPT_TIMEOUT_S)
            orders.pause()

    def any_member(self, timeout_s: float = STATUS_TIMEOUT_S) -> RemoteMember:
        """Return the leader, or else any member that answers, for questions that every member can answer."""
        try:
            return self.find_leader(timeout_s)
        except NoQuorumError:
            for endpoint, look in self._client.look(ATTEMPT_TIMEOUT_S).items():
                if isinstance(look, MemberLook):
                    return RemoteMember(self._client, endpoint, look.get("member_id"))
            raise

    def close(self) -> None:
        self._client.close()


class RemoteMember:
    """One member over the network; a MemberAccess."""

    elsewhere = "try again"

    def __init__(self, client: OperatorClient, endpoint: str, member_id: int) -> None:
        self._client = client
        self.endpoint = endpoint
        self.member_id = member_id
        self.counters = RemoteCounters(client, endpoint)
        self.notes = RemoteNotes(client, self)

    def ask(self, question: Message, values: dict[str, Any], answer: Message, timeout_s: float) -> Any:
        encoded = question.encode(correlation_id=0, **values)
        response = self._client.request(self.endpoint, OperatorOrder.ASK, question=encoded, timeout_s=timeout_s)
        found = ordo_codecs.decode_any(response.payload)
        if found is None or found[0] is not answer:
            raise DecodeError(f"{self.endpoint} answered something else than {answer.name}")
        return found[1]

    def is_running(self) -> bool:
        """Return whether a member answers; one that is silent for some seconds counts as ended."""
        try:
            self._client.request(self.endpoint, OperatorOrder.LOOK, timeout_s=GONE_TIMEOUT_S)
        except ClusterTimeoutError:
            return False
        return True


class RemoteCounters:
    """The counters of one member over the network."""

    def __init__(self, client: OperatorClient, endpoint: str) -> None:
        self._client = client
        self._endpoint = endpoint

    def value(self, counter_type: CounterType) -> int:
        found = self._client.request(self._endpoint, OperatorOrder.LOOK, timeout_s=ANSWER_TIMEOUT_S)
        return parse_look(found.payload).counter(counter_type)

    def set_toggle(self, wanted: int, expected: int) -> int:
        order = OperatorOrder.TOGGLE
        found = self._client.request(self._endpoint, order, value=wanted, expected=expected, timeout_s=ANSWER_TIMEOUT_S)
        return found.value


class RemoteNotes:
    """What one member answers of its cluster, its log and itself."""

    def __init__(self, client: OperatorClient, member: RemoteMember) -> None:
        self._client = client
        self._member = member
        self._endpoint = member.endpoint

    def list_others(self) -> list[int]:
        own_id = self._member.member_id
        return [one.member_id for one in orders.list_members(self._member) if one.member_id != own_id]

    def list_errors(self) -> list[HeldError]:
        from ordo.cluster.admin.member_details import parse_details

        found = self._client.request(self._endpoint, OperatorOrder.DETAILS, timeout_s=ANSWER_TIMEOUT_S)
        return parse_details(parse_object(found.payload)).errors

    def list_skipped(self) -> tuple[list[Skip], list[int]]:
        found = self._client.request(self._endpoint, OperatorOrder.SKIPPED, timeout_s=ANSWER_TIMEOUT_S)
        try:
            return _skips_of(parse_object(found.payload))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise DecodeError(f"{self._endpoint} answered no list of records: {error}") from None


def _skips_of(found: dict[str, Any]) -> tuple[list[Skip], list[int]]:
    from ordo.cluster.module.state.state_store import Skip

    rows = [
        Skip(int(one["log_position"]), int(one["skip_position"]), int(one["timestamp"]), str(one["text"]).encode())
        for one in found["skipped"]
    ]
    return rows, [int(one) for one in found["asked_for"]]


def leader_of(found: dict[str, MemberLook | OrdoError]) -> str | None:
    """Return the endpoint of the member that leads in the latest term with a quorum, or None."""
    terms = {
        look.counter(CounterType.LEADER_TERM): endpoint
        for endpoint, look in found.items()
        if isinstance(look, MemberLook)
        and look.counter(CounterType.NODE_ROLE) == NodeRole.LEADER
        and look.counter(CounterType.LEADER_TERM) >= 0
        and has_quorum(look.counter(CounterType.ELECTION_STATE), look.counter(CounterType.MODULE_STATE))
    }
    return terms[max(terms)] if terms else None


def describe_trouble(found: dict[str, MemberLook | OrdoError]) -> str:
    """Return one line with the state of each member, for when none leads."""
    told = []
    for endpoint, look in found.items():
        if isinstance(look, MemberLook):
            election = counter_name(ElectionState, look.counter(CounterType.ELECTION_STATE))
            told.append(f"{endpoint}: member {look.get('member_id')} does not lead (election {election})")
        else:
            told.append(look.message)
    return "; ".join(told)


def look_status(look: MemberLook) -> NodeStatus:
    """Return the status of a member that was asked."""
    return status_of(look.get("member_id"), look.counter, look.get("sessions"))


def check_permission(found: dict[str, MemberLook | OrdoError]) -> None:
    """Raise NotPermittedError when all members that could be asked refuse the credentials."""
    refusals = [look for look in found.values() if isinstance(look, NotPermittedError)]
    if refusals and not any(isinstance(look, MemberLook) for look in found.values()):
        raise refusals[0]
