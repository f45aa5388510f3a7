"""The authenticator that a node's configuration asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ordo.runtime.errors import ConfigurationError
from ordo.runtime.security.authentication import ALL_TOPICS, EVERYTHING, Right
from ordo.runtime.security.key_authentication import KeyAuthenticator
from ordo.runtime.security.tokens import TokenAuthenticator
from ordo.transport.secure.keys import TrustedRoles

if TYPE_CHECKING:
    from ordo.cluster.settings.config import NodeSettings
    from ordo.runtime.native.clock import Clock
    from ordo.runtime.security.authentication import Authenticator

METHODS = ("on_connect_request", "on_challenge_response", "on_connected_session", "on_challenged_session")


class _UserAuthenticator:
    """A user's own class. Without `rights_of` its principals may do everything, without `topics_of` read all topics."""

    def __init__(self, own: Authenticator) -> None:
        self._rights_of = getattr(own, "rights_of", None)
        self._topics_of = getattr(own, "topics_of", None)
        self.on_connect_request = own.on_connect_request
        self.on_challenge_response = own.on_challenge_response
        self.on_connected_session = own.on_connected_session
        self.on_challenged_session = own.on_challenged_session

    def rights_of(self, encoded_principal: bytes) -> Right:
        return EVERYTHING if self._rights_of is None else cast(Right, self._rights_of(encoded_principal))

    def topics_of(self, encoded_principal: bytes) -> tuple[str, ...]:
        return ALL_TOPICS if self._topics_of is None else tuple(self._topics_of(encoded_principal))


def make_authenticator(config: NodeSettings, clock: Clock) -> Authenticator | None:
    """Return the authenticator; None admits every client.

    Raises ConfigurationError if the class is missing or wrong.
    """
    name = config.authentication.class_
    if name is None:
        anonymous = config.authentication.anonymous_roles
        tokens = TokenAuthenticator((one.token() for one in config.tokens), anonymous) if config.tokens else None
        if not config.authentication.by_key:
            return tokens
        roles = TrustedRoles(str(config.encryption.trusted_file), clock)
        return KeyAuthenticator(roles.read, tokens, read_topics=roles.read_topics)
    from ordo.cluster.container.service_loader import load_class  # brings in what a service is written with

    loaded = load_class(name, "authentication.class", config.folder)
    missing = [name for name in METHODS if not callable(getattr(loaded, name, None))]
    if missing:
        raise ConfigurationError(f"authentication.class={name!r}: it has no {', '.join(missing)}")
    try:
        return _UserAuthenticator(loaded())
    except TypeError as error:
        raise ConfigurationError(f"authentication.class={name!r}: cannot be made: {error}") from error
