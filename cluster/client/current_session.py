"""The session that a client has now, as its queries, requests and acknowledgements see it too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordo.cluster.client.session_states import ClientState
from ordo.runtime.native.sentinels import NULL_VALUE

if TYPE_CHECKING:
    from ordo.cluster.client.connection.ingress import IngressPublications
    from ordo.cluster.client.connection.loop import ClientLoop
    from ordo.transport.streams.image import Image
    from ordo.transport.streams.publication import ExclusivePublication


class CurrentSession:
    """A session and the way to its leader; it may be a different one each time. The client alone changes it."""

    publications: IngressPublications
    """The publications to members; made when the client begins."""

    def __init__(self, loop: ClientLoop, named_endpoints: dict[int, str], ingress_endpoints: dict[int, str]) -> None:
        """Take `named_endpoints`, which the creator of the client gave by member id: the cluster names voters only."""
        self._loop = loop
        self._named_endpoints = named_endpoints
        self.ingress_endpoints = ingress_endpoints
        self.state = ClientState.CONNECTING
        self.session_id = NULL_VALUE
        self.leadership_term_id = NULL_VALUE
        self.leader_member_id = NULL_VALUE
        self.image: Image | None = None
        """What the leader sends to this client."""
        self.closed_reason = ""
        """Why the leader takes no messages for now; empty: it does."""
        self.held_reason = ""
        """Which quota the messages of this session wait for; empty: for none."""

    @property
    def is_connected(self) -> bool:
        return self.state is ClientState.CONNECTED

    @property
    def takes_messages(self) -> bool:
        """False while the leader takes neither messages nor requests."""
        return not self.closed_reason

    @property
    def ingress_trouble(self) -> str:
        """Why the leader takes no messages for now, or fewer than are sent; empty: it takes all."""
        return self.closed_reason or self.held_reason

    def enter_term(self, leadership_term_id: int, session_id: int) -> None:
        """Go on in another session, or with another leader."""
        self.leadership_term_id, self.session_id = leadership_term_id, session_id
        self._loop.set_session(leadership_term_id, session_id)

    def ids(self) -> dict[str, int]:
        """Return the fields that name the session in its messages."""
        return {"leadership_term_id": self.leadership_term_id, "cluster_session_id": self.session_id}

    # The way to the leader, and to other members

    @property
    def leader_ingress(self) -> ExclusivePublication | None:
        """The publication to the leader; None while there is none to send to."""
        return self.publications.get(self.leader_member_id) if self.is_connected else None

    @property
    def leader_endpoint(self) -> str | None:
        """The leader's endpoint; empty for IPC, None when it is not known."""
        return self.ingress_endpoints.get(self.leader_member_id, self.ingress_endpoints.get(NULL_VALUE))

    def endpoint_of(self, member_id: int) -> str:
        """Return where a member hears clients; empty when it is not known."""
        return self.ingress_endpoints.get(member_id) or self._named_endpoints.get(member_id, "")

    @property
    def member_ids(self) -> list[int]:
        """The members whose endpoints are known, in order."""
        return sorted({**self._named_endpoints, **self.ingress_endpoints})

    def note_ingress_lost(self) -> None:
        """Note that the leader's ingress turned out to be gone."""
        self._loop.note_ingress_lost()

    def note_sent(self, count: int = 1) -> None:
        """Note that messages were sent, which keep the session alive by themselves."""
        self._loop.note_sent(count)
