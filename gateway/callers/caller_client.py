"""The client of one session of a gateway, which asks the cluster for the session's principal."""

from __future__ import annotations

from ordo.cluster.client.session import CLIENT_INFO, ClusterClient
from ordo.cluster.wire.sessions.principal_mark import WANTED, decode_mark


class CallerClient(ClusterClient):
    """A client that shows the token of others."""

    _client_info = f"{CLIENT_INFO} {WANTED}"

    @property
    def principal(self) -> str:
        """A mark that is the same for all sessions of one principal; empty if there is none, or it is unknown."""
        return decode_mark(self._opened_detail)
