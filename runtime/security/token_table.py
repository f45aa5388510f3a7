"""One table of [[tokens]] in a configuration file: a principal, the hash of its token, and its roles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field, field_validator

from ordo.runtime.errors import ConfigurationError
from ordo.runtime.security.authentication import rights_of_roles, topics_of_roles
from ordo.runtime.security.tokens import Token, check_hash
from ordo.runtime.settings.config import Settings


class TokenTable(Settings):
    """An entry as `ordo cluster new-token` prints it.

    The reader says which `roles` there are: names of rights, in lower case.
    """

    principal: Annotated[str, Field(min_length=1, max_length=200)] = Field(
        description="Name that the service and the log know the client by (encoded_principal).", examples=["desk-7"]
    )
    hash: str = Field(
        description="Salted SHA-256 of the token.", examples=["sha256:<32 hexadecimal digits>:<64 hexadecimal digits>"]
    )
    roles: Sequence[str] = ()

    @field_validator("hash")
    @classmethod
    def _is_hash(cls, value: str) -> str:
        try:
            return check_hash(value)
        except ConfigurationError as error:
            raise ValueError(error.message) from None

    def token(self) -> Token:
        """Return the principal, the hash, and the rights and topics of the roles."""
        return Token(self.principal, self.hash, rights_of_roles(self.roles), topics_of_roles(self.roles))
