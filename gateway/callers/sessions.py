"""The gateway's sessions with the cluster: one for each token that callers show, all run by the event loop.

The cluster checks who a caller is and what it may do, for a session belongs to one principal. A session carries the
requests of all callers with the same token, of any number of identities.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace

from ordo.cluster.client.requests.relay import RelayedRequests
from ordo.cluster.client.session import relay_of
from ordo.cluster.client.session_states import ClientState
from ordo.gateway.callers.caller_client import CallerClient
from ordo.gateway.callers.settings import GatewaySettings
from ordo.gateway.doors.loop_transport import BUSY_INTERVAL_S, CYCLE_INTERVAL_S, LoopTransport
from ordo.gateway.doors.settings import SessionsFullError
from ordo.runtime.errors import ClusterTimeoutError, OrdoError, SessionRejectedError
from ordo.runtime.reporting.logging import get_logger

POLL_LIMIT = 256
POLLS_MAX = 16
UPKEEP_INTERVAL_S = 0.5
EVICTED_IDLE_S = 1.0
"""Where no more sessions may be, one makes room that nobody has called through for so long."""
REFUSED_PAUSE_S = 5.0
"""Where the cluster lets in nobody without a token, it is asked so often, which also says whether it leads."""

CROWDED_S = 60.0
"""So long it is remembered whose a refused token is; then the cluster is asked again, which may know it anew."""
CROWDED_PER_SESSION = 16


class CallerSession:
    """One session, and the calls that are made in it."""

    def __init__(self, client: CallerClient, now_s: float, host: str) -> None:
        """Create a session. `host` is the caller that opened it; empty for the gateway's own."""
        self.client = client
        self.host = host
        self.relay: RelayedRequests = relay_of(client)
        self.used_s = now_s
        self.calls = 0
        self.failure: OrdoError | None = None
        self.opened = asyncio.Event()

    @property
    def is_connected(self) -> bool:
        return self.failure is None and self.client.state is ClientState.CONNECTED


class GatewaySessions:
    """Opens, runs and closes them."""

    def __init__(self, settings: GatewaySettings, time_s: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._time_s = time_s
        self._link = LoopTransport("gateway", settings.sessions_max + 1, settings, self._cycle)
        self._transport = self._link.transport
        self._sessions: dict[bytes, CallerSession] = {}
        self._crowded: OrderedDict[bytes, tuple[str, float]] = OrderedDict()
        """Hashes of tokens that were refused for their principal: which one, and how long it is remembered."""
        self._own_again_s = 0.0
        self._was_refused = False
        self._upkeep_s = 0.0
        self._link.run_soon()

    @property
    def is_leader_reachable(self) -> bool:
        """Whether a leader answers, even if it refuses a session without a token."""
        return self._was_refused or any(one.is_connected for one in self._sessions.values())

    async def get(self, credentials: bytes | None, timeout_s: float, host: str) -> CallerSession:
        """Return the session of callers that show these credentials, None for those that show none.

        `host` is where this one calls from.

        Raises SessionRejectedError where the cluster does not let them in, ClusterTimeoutError without a leader,
        SessionsFullError.
        """
        key = self._settings.credentials_for(credentials)
        session = self._sessions.get(key)
        if session is None:
            if key != self._own_key():
                self._check_known(key, host)
                self._make_room(host)
            session = self._open(key, host)
        session.used_s = self._time_s()
        if not session.opened.is_set():
            try:
                async with asyncio.timeout(timeout_s):
                    await session.opened.wait()
            except TimeoutError:
                raise ClusterTimeoutError("no leader of the cluster answers") from None
        if session.failure is not None:
            raise session.failure
        return session

    def _make_room(self, host: str) -> None:
        """Make room for one more session of a host. Raises SessionsFullError."""
        settings, is_operator = self._settings, host in self._settings.operator_hosts
        of_host = {key: session for key, session in self._of_callers().items() if session.host == host}
        if not is_operator and len(of_host) >= settings.host_sessions_max and not self._evict(of_host):
            raise SessionsFullError(
                f"{len(of_host)} sessions of {host} are open, as many as one host may have: see --sessions-per-host"
            )
        callers = self._of_callers()
        kept = 0 if is_operator else settings.operator_sessions_kept
        if len(callers) >= settings.sessions_max - kept and not self._evict(callers):
            text = f"{len(callers)} sessions are open, as many as there may be: see --sessions-max"
            if kept and len(callers) < settings.sessions_max:
                text = f"the last {kept} sessions are for operators: see --operator-sessions and --operator-hosts"
            raise SessionsFullError(text)

    def _check_known(self, key: bytes, host: str) -> None:
        """Refuse a token again without a session, as long as its principal has as many as it may."""
        mark, now_s = _hash(key), self._time_s()
        principal, until_s = self._crowded.get(mark, ("", 0.0))
        if now_s < until_s:
            self._make_room_of(principal, host)
        self._crowded.pop(mark, None)

    def _make_room_of(self, principal: str, host: str, session: CallerSession | None = None) -> None:
        """Make room for a session of a principal; the empty one is none. Raises SessionsFullError."""
        if not principal or host in self._settings.operator_hosts:
            return
        found = {
            key: one
            for key, one in self._of_callers().items()
            if one is not session and one.client.principal == principal
        }
        if len(found) >= self._settings.principal_sessions_max and not self._evict(found):
            raise SessionsFullError(
                f"{len(found)} sessions of this token's principal are open, as many as one may have: see "
                "--sessions-per-principal"
            )

    def _of_callers(self) -> dict[bytes, CallerSession]:
        """All but the gateway's own."""
        own = self._own_key()
        return {key: session for key, session in self._sessions.items() if key != own}

    def _evict(self, found: Mapping[bytes, CallerSession]) -> bool:
        """Close the session of these that was silent longest, unless all are in use."""
        before_s = self._time_s() - EVICTED_IDLE_S
        silent = [
            key
            for key, session in found.items()
            if session.opened.is_set() and session.calls == 0 and session.used_s < before_s
        ]
        if not silent:
            return False
        self._close(min(silent, key=lambda key: found[key].used_s))
        return True

    def _close(self, key: bytes) -> None:
        self._sessions.pop(key).client.close()

    def _open(self, key: bytes, host: str = "") -> CallerSession:
        settings = replace(
            self._settings.client,
            credentials=key,
            reconnect=True,
            client_name=self._settings.client.client_name or "gateway",
        )
        client = CallerClient(list(self._settings.endpoints), settings=settings, transport=self._transport, wait=False)
        session = self._sessions[key] = CallerSession(client, self._time_s(), host)
        self.flush()
        return session

    # The event loop's

    def flush(self) -> None:
        """Send what was passed to a session, at the end of this turn of the loop."""
        self._link.run_soon()

    def _cycle(self) -> float:
        if self._time_s() >= self._upkeep_s:
            self._upkeep_s = self._time_s() + UPKEEP_INTERVAL_S
            self._keep_up()
        is_busy = False
        for key, session in list(self._sessions.items()):
            self._run(key, session)
            is_busy = is_busy or session.relay.has_unsent or session.client.state is not ClientState.CONNECTED
        if not self._sessions:
            self._transport.drive()
        return BUSY_INTERVAL_S if is_busy else CYCLE_INTERVAL_S

    def _run(self, key: bytes, session: CallerSession) -> None:
        try:
            for _ in range(POLLS_MAX):
                if session.client.poll(POLL_LIMIT) < POLL_LIMIT:
                    break
        except OrdoError as error:
            self._end(key, session, error)
            return
        if session.client.state is ClientState.CONNECTED and not session.opened.is_set():
            try:
                if key != self._own_key():
                    self._make_room_of(session.client.principal, session.host, session)
            except SessionsFullError as error:
                self._remember(key, session.client.principal)
                self._end(key, session, error)
                return
            session.opened.set()
            self._was_refused = False
            get_logger().info("gateway.session", session_id=session.client.session_id)

    def _remember(self, key: bytes, principal: str) -> None:
        self._crowded[_hash(key)] = principal, self._time_s() + CROWDED_S
        while len(self._crowded) > CROWDED_PER_SESSION * self._settings.sessions_max:
            self._crowded.popitem(last=False)

    def _end(self, key: bytes, session: CallerSession, error: OrdoError) -> None:
        session.failure = error
        session.opened.set()
        self._sessions.pop(key, None)
        session.client.close()
        if key == self._own_key():
            self._was_refused = isinstance(error, SessionRejectedError)
            self._own_again_s = self._time_s() + (REFUSED_PAUSE_S if self._was_refused else UPKEEP_INTERVAL_S)
        get_logger().warning("gateway.session-failed", trouble=error.message)

    def _own_key(self) -> bytes | None:
        """Return the key of the session of callers without a token, which always exists to show a leader."""
        try:
            return self._settings.client.read_credentials()
        except OrdoError:
            return None

    def _keep_up(self) -> None:
        now_s, own = self._time_s(), self._own_key()
        if own is not None and own not in self._sessions and now_s >= self._own_again_s:
            self._open(own)
        for key, session in list(self._sessions.items()):
            is_idle = session.calls == 0 and now_s - session.used_s > self._settings.session_idle_s
            if key != own and is_idle:
                self._close(key)

    def close(self) -> None:
        """Close all sessions. Idempotent."""
        self._link.close(before=self._close_all)

    def _close_all(self) -> None:
        for session in self._sessions.values():
            session.client.close()
        self._sessions.clear()


def _hash(key: bytes) -> bytes:
    """Return a hash of a token, because the token itself must not be kept."""
    return hashlib.blake2b(key, digest_size=16).digest()
