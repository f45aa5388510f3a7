"""How a client opens a session: the transport that it uses, and the attempts to find the leader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from ordo.cluster.client.connection.connect import ClientIntroduction, ConnectPatience, SessionConnect
from ordo.cluster.client.connection.endpoints import NamedEndpoints, check_own_driver
from ordo.cluster.client.requests.journal import Journal
from ordo.cluster.client.session_states import ClientEvent
from ordo.cluster.client.settings import EGRESS_POLICIES, ClientSettings, to_ns
from ordo.cluster.wire.streams import EGRESS_POLICY_KEY
from ordo.runtime.errors import ConfigurationError
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.transport.client.client_transport import ClientTransport
from ordo.transport.secure.settings import Encryption

if TYPE_CHECKING:
    from ordo.cluster.client.current_session import CurrentSession
    from ordo.transport.streams.subscription import Subscription


def choose_settings(settings: object, egress_channel: object, journal: object = None) -> ClientSettings:
    """Return the settings of a client, with the egress channel that it was given beside them.

    Raises ConfigurationError for what is not ClientSettings, or no Journal.
    """
    chosen = ClientSettings() if settings is None else settings
    if not isinstance(chosen, ClientSettings):
        raise ConfigurationError(f"settings={str(settings)[:100]}: give ClientSettings(...)")
    if journal is not None and not isinstance(journal, Journal):
        raise ConfigurationError(f"journal={str(journal)[:100]}: name the file as ClientSettings(journal='...')")
    if isinstance(egress_channel, ClientSettings):
        raise ConfigurationError("the second argument is egress_channel: give ClientSettings as settings=...")
    return chosen if egress_channel is None else replace(chosen, egress_channel=str(egress_channel))


def open_transport(aeron_dir: str | None, settings: ClientSettings, name: str = "cluster-client") -> ClientTransport:
    """Return the transport of a client: over the driver in a folder, or with a driver of its own.

    Raises ConfigurationError, TransportError.
    """
    if not aeron_dir:
        encryption = Encryption.chosen(settings.key_file, settings.trusted_file)
        check_own_driver(settings.ingress_channel, is_encrypted=bool(encryption.key_file))
        return ClientTransport.embedded(name, encryption=encryption)
    if settings.key_file:
        raise ConfigurationError("key_file: encryption belongs to the driver, which is another process (aeron_dir)")
    return ClientTransport.connect(aeron_dir, name)


def egress_channel_of(settings: ClientSettings) -> str:
    """Return the channel on which a client listens."""
    channel = settings.egress_channel
    if channel.startswith("aeron:udp"):
        channel += f"{'|' if '?' in channel else '?'}rejoin=false"
    return channel


class SessionOpener:
    """Begins to open sessions, one after the other."""

    def __init__(
        self,
        settings: ClientSettings,
        transport: ClientTransport,
        current: CurrentSession,
        named: NamedEndpoints,
        egress: Subscription,
        *,
        info: str,
        on_challenge: Callable[[bytes], bytes],
        on_event: Callable[[ClientEvent], object],
    ) -> None:
        """Take what tells the cluster of the client: `info`, and `on_challenge`, which answers an authenticator."""
        self._settings = settings
        self._transport = transport
        self._current = current
        self._named = named
        self._egress = egress
        self._info = info
        self._on_challenge = on_challenge
        self._on_event = on_event

    def begin(self) -> SessionConnect:
        """Begin to ask the members whose endpoints are known."""
        settings, now_ns = self._settings, self._transport.clock.now()
        attempt_ns, deadline_ns = to_ns(settings.connect_attempt_timeout_s), now_ns + to_ns(settings.connect_timeout_s)
        return SessionConnect(
            self._current.publications,
            self._egress,
            self._current.ingress_endpoints,
            secret=self._transport.random.secret("connect"),
            response_channel=self._response_channel,
            introduction=ClientIntroduction(settings.read_credentials(), self._on_challenge, self._info),
            patience=ConnectPatience(
                attempt_ns, deadline_ns, lambda why: self._on_event(ClientEvent("waiting", NULL_VALUE, why))
            ),
            renew=self._renew_endpoints,
        )

    def _renew_endpoints(self) -> dict[int, str] | None:
        renewed = self._named.renew()
        if renewed is not None:
            text = ", ".join(renewed[member_id] for member_id in sorted(renewed))
            self._on_event(ClientEvent("endpoints", self._current.session_id, text))
        return renewed

    def _response_channel(self, endpoint: str) -> str:
        channel = "aeron:ipc?" if not endpoint else f"aeron:udp?endpoint={endpoint}|rejoin=false|"
        channel = f"{channel}term-length={self._settings.egress_term_length_bytes}"
        policy = self._settings.egress_policy
        return channel if policy == EGRESS_POLICIES[0] else f"{channel}|{EGRESS_POLICY_KEY}={policy}"
