"""How much sessions and principals may append a second: [quotas] and [[principals]] of node.toml."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from ordo.runtime.settings.config import DurationNs, Settings, SizeBytes, duration_within, size_within

Rate = Annotated[int, Field(ge=0, le=100_000_000)]
"""So many a second."""
ByteRate = Annotated[SizeBytes, size_within("1k", "64g", "a second", or_zero=True)]
"""So many bytes a second."""


class QuotaSettings(Settings):
    """How much the leader takes into the log a second; what is more waits in its stream, and its client is told.

    The same on every member. 0: not bounded. See OPERATIONS.md, Quotas.
    """

    session_messages: Rate = Field(default=0, description="Messages and requests of one session.")
    session_bytes: ByteRate = Field(default=0, description="Bytes of them.")
    principal_messages: Rate = Field(
        default=0, description="Messages and requests of all sessions of one principal; clients must be authenticated."
    )
    principal_bytes: ByteRate = Field(default=0, description="Bytes of them.")
    burst_ns: Annotated[DurationNs, duration_within("1ms", "60s")] = Field(
        default=100_000_000,
        alias="burst",
        description="What was not used for so long may be used at once: 1ms to 60s.",
    )

    @property
    def bounds_anything(self) -> bool:
        """Whether a session, or a principal, is bounded at all."""
        return any((self.session_messages, self.session_bytes, self.principal_messages, self.principal_bytes))


class PrincipalSettings(Settings):
    """One table for each principal that has other quotas than the rest, another weight, or the first lane.

    The same on every member; clients must be authenticated.
    """

    name: Annotated[str, Field(min_length=1, max_length=200)] = Field(
        description="The principal: of a token, a trusted key, or as the class of [authentication] says.",
        examples=["desk-7"],
    )
    weight: Annotated[int, Field(ge=1, le=64)] = Field(
        default=1, description="Its sessions' share of what is taken while there is not room for all: 1 to 64."
    )
    first: bool = Field(
        default=False,
        description="Its sessions' messages are taken before all others', and while others have to wait.",
    )
    messages: Rate | None = Field(default=None, description="Instead of principal_messages.", examples=[50000])
    bytes: ByteRate | None = Field(default=None, description="Instead of principal_bytes.", examples=["16m"])
    session_messages: Rate | None = Field(
        default=None, description="Instead of that of [quotas], for each of its sessions.", examples=[10000]
    )
    session_bytes: ByteRate | None = Field(
        default=None, description="Instead of that of [quotas], for each of its sessions.", examples=["4m"]
    )

    @model_validator(mode="after")
    def _says_something(self) -> PrincipalSettings:
        if self.model_fields_set <= {"name"}:
            raise ValueError(f"name={self.name!r}: give it a quota, a weight or first = true, or leave the table out")
        return self
