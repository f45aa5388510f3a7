"""The fields that entries of the log have by name, for type checkers and for people who look them up."""

from __future__ import annotations

from typing import Any, Protocol


class SchemaValues(Protocol):
    """What SCHEMA has beside those of others: what names the schema, and its XML as a zlib stream."""

    @property
    def digest(self) -> bytes: ...
    @property
    def packed(self) -> bytes: ...


class EntryValues(Protocol):
    """The fields of an entry of any kind but `EntryKind.MESSAGE`: a named tuple that has those of its kind.

    A field that an entry's kind does not have raises AttributeError. Positions are bytes of the log, times ms since
    1970 in cluster time.
    """

    # every kind but APP_VERSION
    @property
    def leadership_term_id(self) -> int: ...
    @property
    def timestamp(self) -> int: ...

    # REQUEST, OUTPUT
    @property
    def open_position(self) -> int: ...
    @property
    def number(self) -> int: ...
    @property
    def confirmed(self) -> int: ...

    # REQUEST, OUTPUT, IDENTITY, SESSION_OPEN, SESSION_CLOSE
    @property
    def cluster_session_id(self) -> int: ...

    # OUTPUT, DIFFERENCE
    @property
    def input_position(self) -> int: ...
    @property
    def output_index(self) -> int: ...

    # OUTPUT
    @property
    def target_session_id(self) -> int: ...

    # IDENTITY, CLUSTER_IDENTITY
    @property
    def identity_high(self) -> int: ...
    @property
    def identity_low(self) -> int: ...

    # IDENTITY
    @property
    def incarnation(self) -> int: ...
    @property
    def known_position(self) -> int: ...

    # SESSION_OPEN, TIMER
    @property
    def correlation_id(self) -> int: ...

    # SESSION_OPEN
    @property
    def response_stream_id(self) -> int: ...
    @property
    def response_channel(self) -> str: ...
    @property
    def encoded_principal(self) -> bytes: ...

    # SESSION_CLOSE
    @property
    def close_reason(self) -> int: ...

    # NEW_TERM, ACTION, DIFFERENCE, CLUSTER_IDENTITY, SCHEMA
    @property
    def log_position(self) -> int: ...

    # NEW_TERM
    @property
    def term_base_log_position(self) -> int: ...
    @property
    def leader_member_id(self) -> int: ...
    @property
    def log_session_id(self) -> int: ...
    @property
    def time_unit(self) -> int: ...

    # NEW_TERM, VERSION, APP_VERSION, DIFFERENCE
    @property
    def app_version(self) -> int: ...

    # ACTION
    @property
    def action(self) -> int: ...
    @property
    def flags(self) -> int: ...

    # CONFIGURATION
    @property
    def voters(self) -> str: ...
    @property
    def learners(self) -> str: ...

    # SKIP, VERSION, STATE_HASH, LEVEL, CLUSTER_IDENTITY, SCHEMA: the member that led
    @property
    def member_id(self) -> int: ...

    # SKIP
    @property
    def skipped_position(self) -> int: ...
    @property
    def text(self) -> bytes: ...

    # VERSION, SCHEMA
    @property
    def service_id(self) -> int: ...

    # STATE_HASH
    @property
    def agreed_position(self) -> int: ...
    @property
    def agreed_digest(self) -> bytes: ...

    # LEVEL
    @property
    def level(self) -> int: ...

    # DIFFERENCE
    @property
    def count(self) -> int: ...
    @property
    def kind(self) -> int: ...
    @property
    def written_length(self) -> int: ...
    @property
    def canary_length(self) -> int: ...
    @property
    def group_length(self) -> int: ...
    @property
    def instance_length(self) -> int: ...

    # APP_VERSION
    @property
    def group(self) -> str: ...
    @property
    def former_version(self) -> int: ...

    def _asdict(self) -> dict[str, Any]: ...
