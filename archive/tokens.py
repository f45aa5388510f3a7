"""The clients of an archive of its own: a file of [[tokens]] with their roles."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator

from runtime.authentication import Right
from runtime.config import Settings
from runtime.errors import ConfigurationError
from runtime.tokens import Token, TokenAuthenticator, check_hash

Role = Literal["log", "record", "delete"]


class ArchiveToken(Settings):
    """One table, as `ordo cluster new-token` prints it."""

    principal: Annotated[str, Field(min_length=1, max_length=200)]
    hash: str
    roles: list[Role] = ["log"]

    @field_validator("hash")
    @classmethod
    def _is_hash(cls, value: str) -> str:
        try:
            return check_hash(value)
        except ConfigurationError as error:
            raise ValueError(error.message) from None

    def token(self) -> Token:
        rights = Right(0)
        for role in self.roles:
            rights |= Right[role.upper()]
        return Token(self.principal, self.hash, rights)


class TokenFile(Settings):
    """A whole file."""

    tokens: Annotated[list[ArchiveToken], Field(min_length=1)]


def load_tokens(path: Path) -> TokenAuthenticator:
    """Returns who lets in the holders of the tokens in a file. Raises ConfigurationError."""
    return TokenAuthenticator(one.token() for one in TokenFile.from_toml(path).tokens)
