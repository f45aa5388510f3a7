"""Entries of the log, as a reader sees them (cluster-consensus.md §11)."""

from __future__ import annotations

import struct
from collections.abc import Collection
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, cast

from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.sessions.arrivals import split_arrival
from ordo.cluster.wire.sessions.consumer_codec import CommandKind, decode_command
from ordo.runtime.errors import DecodeError
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.runtime.sbe import Message

if TYPE_CHECKING:
    from ordo.cluster.wire import records
    from ordo.follow.entry_values import EntryValues

_SESSION_MESSAGE = struct.Struct("<HHHHqqq")
_BLOCK_LENGTH = struct.Struct("<H")


class EntryKind(Enum):
    """What an entry of the log is."""

    MESSAGE = "message"
    REQUEST = "request"
    """What a client asked for with `request`. Sent again after a failover it stands in the log twice and is executed
    once: `LogEntry.is_repeat` tells the copies apart."""
    OUTPUT = "output"
    """A request of an application: `values` also say which input it answers, and whom it is for."""
    IDENTITY = "identity"
    """An identity is opened: its requests name this entry's position, or an earlier one of the same identity."""
    SESSION_OPEN = "session_open"
    SESSION_CLOSE = "session_close"
    TIMER = "timer"
    NEW_TERM = "new_term"
    CLUSTER_ACTION = "cluster_action"
    CONFIGURATION = "configuration"
    SKIP = "skip"
    """The entry at `values.skipped_position` is left out: no service's state has anything of it."""
    VERSION = "version"
    """The service `values.service_id`, or all where that is negative, executes what follows with its code of
    `values.app_version`."""
    STATE_HASH = "state_hash"
    """At `values.agreed_position`, an earlier such entry, a quorum of services had the state `values.agreed_digest`."""
    LEVEL = "level"
    """What follows may have entries that only releases of `values.level` know."""
    CLUSTER_IDENTITY = "cluster_identity"
    """This is the log of the cluster whose identity is `values.identity_high` and `values.identity_low`."""
    SCHEMA = "schema"
    """From here on `values.digest` names the schema of messages of the service `values.service_id`; `values.packed` has
    it, and `ordo log --decode` reads messages by it."""
    CLOCK = "clock"
    """How well the clock of the leader `values.member_id` was known, which stamps the entries of its term."""
    DIFFERENCE = "difference"
    """A canary has found that it would have written the output `values.output_index` to the entry before
    `values.input_position` otherwise; no application sees this entry."""
    APP_VERSION = "app_version"
    """From here on, instances of the group `values.group` execute the log with their code of `values.app_version`, if
    that of `values.former_version` was in force."""


class AppVersionChange(NamedTuple):
    """The values of an entry that changes the version of an application's group."""

    group: str
    former_version: int
    app_version: int


_KINDS: dict[Message, EntryKind] = {
    ordo_codecs.REQUEST: EntryKind.REQUEST,
    ordo_codecs.OPEN_IDENTITY: EntryKind.IDENTITY,
    codecs.SESSION_OPEN_EVENT: EntryKind.SESSION_OPEN,
    codecs.SESSION_CLOSE_EVENT: EntryKind.SESSION_CLOSE,
    codecs.TIMER_EVENT: EntryKind.TIMER,
    codecs.NEW_LEADERSHIP_TERM_EVENT: EntryKind.NEW_TERM,
    codecs.CLUSTER_ACTION_REQUEST: EntryKind.CLUSTER_ACTION,
    ordo_codecs.CONFIGURATION_EVENT: EntryKind.CONFIGURATION,
    ordo_codecs.SKIP_EVENT: EntryKind.SKIP,
    ordo_codecs.VERSION_EVENT: EntryKind.VERSION,
    ordo_codecs.APP_DIFFERENCE: EntryKind.DIFFERENCE,
    ordo_codecs.STATE_HASH_EVENT: EntryKind.STATE_HASH,
    ordo_codecs.LEVEL_EVENT: EntryKind.LEVEL,
    ordo_codecs.CLUSTER_IDENTITY_EVENT: EntryKind.CLUSTER_IDENTITY,
    ordo_codecs.SCHEMA_EVENT: EntryKind.SCHEMA,
    ordo_codecs.CLOCK_EVENT: EntryKind.CLOCK,
}


_MESSAGES = {kind: message for message, kind in _KINDS.items()} | {
    EntryKind.MESSAGE: codecs.SESSION_MESSAGE_HEADER,
    EntryKind.OUTPUT: ordo_codecs.REQUEST,
    EntryKind.APP_VERSION: ordo_codecs.CONSUMER_COMMAND,
}
FILTERED_SESSIONS_MAX = 64


def record_filter(kinds: Collection[EntryKind] | None, session_ids: Collection[int] | None) -> dict[str, str]:
    """Return what an archive is to send of a log, as parameters of a replay's channel.

    At least these entries, {} for all.

    Nodes of earlier releases do not know the parameters, and send everything.
    """
    if kinds is None and session_ids is None:
        return {}
    messages = {_MESSAGES[kind].name: _MESSAGES[kind] for kind in (EntryKind if kinds is None else kinds)}
    if ordo_codecs.REQUEST.name in messages:
        messages[ordo_codecs.ARRIVED_REQUEST.name] = ordo_codecs.ARRIVED_REQUEST
    places = [(message, message.offset_of("cluster_session_id")) for message in messages.values()]
    if session_ids is not None and NULL_VALUE not in session_ids:
        places = [(message, offset) for message, offset in places if offset is not None]
    if not places:
        return {}
    records = [f"{one.schema_id}:{one.template_id}" + ("" if at is None else f":{at}") for one, at in places]
    chosen = {"records": ",".join(records)}
    if session_ids is not None and 0 < len(session_ids) <= FILTERED_SESSIONS_MAX:
        chosen["sessions"] = ",".join(str(one) for one in sorted(session_ids))
    return chosen


class LogEntry(NamedTuple):
    """One entry of the committed log."""

    position: int
    """The position after the entry, in bytes: reading with `from_position=position` goes on with the next one."""
    kind: EntryKind
    timestamp: int
    """Cluster time since 1970, in the unit of the log: `TimeUnit.of_timestamp` says which."""
    leadership_term_id: int
    session_id: int
    """The session of a message, a request or a session entry; -1 for all other entries."""
    payload: bytes
    """What the client sent with a message or a request; empty for all other entries."""
    values: EntryValues = cast("EntryValues", None)
    """The fields by name of any entry but a message, which has None: ask for those of the entry's kind."""
    is_repeat: bool | None = False
    """For a request or an output: True for a copy that the cluster does not execute, because the request was executed
    before, or its session or identity was gone. None if that is not known. False for all other entries."""
    identity: bytes = b""
    """For a request, an output or an identity: the 16 bytes that name the client through all its sessions, where they
    are known. With `request_number` it is what all copies of one request have in common."""
    sequence: int = 0
    """The number of a message, or of a request or an output that is executed, as services see it in `header.sequence`.
    0 for all others, and where it is not known: for readers that are not sent all messages, requests and outputs,
    unless they begin with a number (`AtSequence`); with `repeats`, but from position 0; where nothing is left of the
    log or of snapshots before; and where the log of an earlier release has none."""
    arrival_ns: int | None = None
    """When a message, a request or an output arrived at the leader's socket, by that machine's clock, in ns since 1970.
    None for all others, and where the log does not say it (`[cluster] arrival_time`)."""

    @property
    def request_number(self) -> int:
        """Count the requests of an identity from 1 on; 0 for an entry that is no request."""
        return self.values.number if self.kind in (EntryKind.REQUEST, EntryKind.OUTPUT) else 0

    @property
    def request_id(self) -> bytes:
        """A digest of the id that the caller chose for its request or output (`id=...`), 16 bytes.

        Empty for all other entries. Copies have it in common even if other clients sent them.
        """
        return ordo_codecs.request_digest(self.values) if self.kind in (EntryKind.REQUEST, EntryKind.OUTPUT) else b""


def decode_entry(position: int, record: bytes) -> LogEntry | None:
    """Return the entry in a record of the log that ends at `position`; None for a record that readers do not know.

    Raises DecodeError when the record is shorter than its own lengths say.
    """
    arrival_ns, record = split_arrival(record)
    if len(record) >= _SESSION_MESSAGE.size:
        block_length, template_id, schema_id, _, term_id, session_id, timestamp = _SESSION_MESSAGE.unpack_from(record)
        if (template_id, schema_id) == (codecs.SESSION_MESSAGE_HEADER.template_id, codecs.SCHEMA_ID):
            if codecs.HEADER_LENGTH_BYTES + block_length > len(record):
                raise DecodeError(f"message at position={position} is cut: block_length={block_length}")
            payload = record[codecs.HEADER_LENGTH_BYTES + block_length :]
            return LogEntry(position, EntryKind.MESSAGE, timestamp, term_id, session_id, payload, arrival_ns=arrival_ns)
    found = ordo_codecs.decode_any(record)
    if found is None:
        return None
    message, values = found
    if message is ordo_codecs.CONSUMER_COMMAND:
        return _find_app_version(position, record, values)
    if message not in _KINDS:
        return None
    kind, payload = _KINDS[message], b""
    if message is ordo_codecs.REQUEST:
        block_length = _BLOCK_LENGTH.unpack_from(record)[0]
        payload = record[codecs.HEADER_LENGTH_BYTES + block_length :]
        if block_length > ordo_codecs.REQUEST.block_length:
            longer, values = ordo_codecs.decode_request(record)
            kind = EntryKind.OUTPUT if longer in (ordo_codecs.OUTPUT, ordo_codecs.OUTPUT_BY_ID) else kind
    session_id = getattr(values, "cluster_session_id", NULL_VALUE)
    term_id, timestamp = values.leadership_term_id, values.timestamp
    return LogEntry(position, kind, timestamp, term_id, session_id, payload, values, arrival_ns=arrival_ns)


def is_snapshot(entry: LogEntry) -> bool:
    """Return whether an entry of kind CLUSTER_ACTION has members take a snapshot."""
    return codecs.is_snapshot_order(entry.values.action, entry.values.flags)


def _find_app_version(position: int, record: bytes, values: records.ConsumerCommand) -> LogEntry | None:
    """Return the entry that a ConsumerCommand is; None for any but the upgrade of a group."""
    command = decode_command(record) if values.kind == CommandKind.APP_UPGRADE else None
    if command is None:
        return None
    change = AppVersionChange(command.name, command.from_position, command.position)
    return LogEntry(
        position,
        EntryKind.APP_VERSION,
        values.timestamp,
        values.leadership_term_id,
        values.cluster_session_id,
        b"",
        cast("EntryValues", change),
    )
