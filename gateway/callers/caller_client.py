"""The client of one session of a gateway: it asks the cluster whose the session is."""

from __future__ import annotations

from ordo.cluster.client.session import CLIENT_INFO, ClusterClient
from ordo.cluster.wire.sessions.principal_mark import WANTED, decode_mark


class CallerClient(ClusterClient):
    """A client that shows the token of others."""

    _client_info = f"{CLIENT_INFO} {WANTED}"

    @property
    def principal(self) -> str:
        """A mark that is the same for all sessions of one principal; empty where it is nobody's, or not known."""
        return decode_mark(self._opened_detail)
