"""The session that a client has now, as its queries, requests and acknowledgements see it too.

It is asked several times for each request, and so it is native.
"""

from libc.stdint cimport int64_t

from ordo.cluster.client.connection.loop cimport ClientLoop

from ordo.cluster.client.session_states import ClientState
from ordo.runtime.native.sentinels import NULL_VALUE

cdef object CONNECTED = ClientState.CONNECTED


cdef class CurrentSession:
    """A session and the way to its leader; it may be a different one each time. The client alone changes it."""
    cdef ClientLoop _loop
    cdef dict _named_endpoints
    cdef public object publications        # those to members; made when the client begins
    cdef public dict ingress_endpoints
    cdef public object state
    cdef public int64_t session_id
    cdef public int64_t leadership_term_id
    cdef public int64_t leader_member_id
    cdef public object image               # what the leader sends to this client
    cdef public str closed_reason          # why the leader takes no messages for now; empty: it does
    cdef public str held_reason            # which quota the messages of this session wait for; empty: for none

    def __init__(self, ClientLoop loop not None, dict named_endpoints not None, dict ingress_endpoints not None):
        """Take `named_endpoints`, which the creator of the client gave by member id: the cluster names voters only."""
        self._loop = loop
        self._named_endpoints = named_endpoints
        self.ingress_endpoints = ingress_endpoints
        self.state = ClientState.CONNECTING
        self.session_id = self.leadership_term_id = self.leader_member_id = NULL_VALUE
        self.closed_reason = self.held_reason = ""

    @property
    def is_connected(self):
        return self.state is CONNECTED

    @property
    def takes_messages(self):
        """False while the leader takes neither messages nor requests."""
        return not self.closed_reason

    @property
    def ingress_trouble(self):
        """Why the leader takes no messages for now, or fewer than are sent; empty: it takes all."""
        return self.closed_reason or self.held_reason

    def enter_term(self, int64_t leadership_term_id, int64_t session_id):
        """Go on in another session, or with another leader."""
        self.leadership_term_id, self.session_id = leadership_term_id, session_id
        self._loop.set_session(leadership_term_id, session_id)

    def ids(self):
        """Return the fields that name the session in its messages."""
        return {"leadership_term_id": self.leadership_term_id, "cluster_session_id": self.session_id}

    # The way to the leader, and to other members

    @property
    def leader_ingress(self):
        """The publication to the leader; None while there is none to send to."""
        return self.publications.get(self.leader_member_id) if self.state is CONNECTED else None

    @property
    def leader_endpoint(self):
        """The leader's endpoint; empty for IPC, None when it is not known."""
        return self.ingress_endpoints.get(self.leader_member_id, self.ingress_endpoints.get(NULL_VALUE))

    def endpoint_of(self, int64_t member_id):
        """Return where a member hears clients; empty when it is not known."""
        return self.ingress_endpoints.get(member_id) or self._named_endpoints.get(member_id, "")

    @property
    def member_ids(self):
        """The members whose endpoints are known, in order."""
        return sorted({**self._named_endpoints, **self.ingress_endpoints})

    def note_ingress_lost(self):
        """Note that the leader's ingress turned out to be gone."""
        self._loop.note_ingress_lost()

    def note_sent(self, int count=1):
        """Note that messages were sent, which keep the session alive by themselves."""
        self._loop.note_sent(count)
