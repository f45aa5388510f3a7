"""The message browser: stretches of the committed log, readable."""

from __future__ import annotations

import importlib
import json
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

from ordo.follow.entries import EntryKind, LogEntry
from ordo.follow.log_schemas import LogSchemas
from ordo.follow.reader import LogReader
from ordo.gateway.console.cluster_view import exact
from ordo.gateway.watching.log_messages import LogMessages, describe
from ordo.gateway.watching.watch_requests import BY_LOG
from ordo.runtime.errors import ConfigurationError
from ordo.runtime.native.cluster_time import time_ms

ENTRIES_MAX = 200
READ_TIMEOUT_S = 3.0
"""A page takes so long at most; it says how far it came."""
SILENCE_S = 0.5
END_SILENCE_S = 0.1
"""What members last told of the end of the log is a second old: there may be more."""
PAUSE_S = 0.002
NEWEST_BYTES = 128 * 1024
"""The newest entries are looked for in so much of the log at least."""
TEXT_LENGTH_MAX = 2_048
HEX_BYTES_MAX = 256
KNOWN_POSITIONS_MAX = 16_384
Decoder = Callable[[bytes], Any]
WITH_PAYLOAD = (EntryKind.MESSAGE, EntryKind.REQUEST, EntryKind.OUTPUT)


class Wanted(NamedTuple):
    """The entries that a user wants to see: after a position, or the newest ones if `from_position` is None."""

    from_position: int | None
    entries_max: int
    kinds: Collection[EntryKind] | None
    session_id: int | None


class Page(NamedTuple):
    """Entries, where the next ones begin, and whether the reading stopped there for lack of time."""

    entries: list[dict[str, Any]]
    next_position: int
    is_cut: bool


def load_decoder(text: str) -> Decoder | None:
    """Load `module:function`, which turns a payload into what is shown. Raises ConfigurationError."""
    if text in ("", BY_LOG):
        return None
    module, _, name = text.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"--decoder {text}: must be log, or module:function of a module that can be imported: {error}"
        ) from None
    if not callable(found):
        raise ConfigurationError(f"--decoder {text}: {name} is no function")
    return found  # type: ignore[no-any-return]


class MessageBrowser:
    """Reads pages of the log. `read` may be called by any thread, one at a time.

    Reading can begin only where an entry begins: at the start of the log, a term or a snapshot, or where an entry that
    was shown before has ended.
    """

    def __init__(
        self, addresses: Collection[str], decoder: Decoder | None, log_messages: LogMessages | None = None
    ) -> None:
        """Show payloads by a decoder, or by the schemas of the log."""
        self._addresses = list(addresses)
        self._decoder = decoder
        self._log_messages = log_messages
        self._known: OrderedDict[int, None] = OrderedDict()

    def read(self, wanted: Wanted, boundaries: Iterable[int], committed: int, credentials: bytes) -> Page:
        """`credentials`: with the role log, where the cluster authenticates.

        Raises ArchiveError when the log does not go back so far, or when nobody gives it, TransportError.
        """
        newest = wanted.from_position is None
        begin = self._find_begin(wanted.from_position, sorted(boundaries), committed)
        found: deque[LogEntry] = deque(maxlen=wanted.entries_max if newest else None)
        with LogReader(
            self._addresses,
            from_position=begin,
            kinds=wanted.kinds,
            session_ids=None if wanted.session_id is None else [wanted.session_id],
            repeats=True,  # what there is, at once: a page is looked at, not counted
            credentials=credentials,
        ) as reader:
            is_cut = self._fill(reader, wanted, found, committed)
            position = begin if reader.position is None else reader.position
        entries = list(found)
        if not newest and len(entries) > wanted.entries_max:
            del entries[wanted.entries_max :]
            position, is_cut = entries[-1].position, False
        self._remember([*(one.position for one in entries), position])
        has_payloads = any(one.kind in WITH_PAYLOAD for one in entries)
        schemas = self._log_messages.look(credentials) if self._log_messages is not None and has_payloads else None
        return Page([self._describe(one, schemas) for one in entries], position, is_cut)

    def _find_begin(self, from_position: int | None, boundaries: list[int], committed: int) -> int:
        """Return where to begin reading for entries after a position; None for the newest ones."""
        oldest = min(boundaries, default=0)
        if from_position is None:
            return max((one for one in boundaries if one <= committed - NEWEST_BYTES), default=oldest)
        return max((one for one in (*boundaries, *self._known) if one <= from_position), default=oldest)

    def _fill(self, reader: LogReader, wanted: Wanted, found: deque[LogEntry], committed: int) -> bool:
        """Read until there is enough. Returns whether time ended it."""
        began_s = heard_s = time.monotonic()
        skip_to = -1 if wanted.from_position is None else wanted.from_position

        def take(entry: LogEntry) -> None:
            if entry.position > skip_to:
                found.append(entry)

        while wanted.from_position is None or len(found) < wanted.entries_max:
            now_s = time.monotonic()
            if now_s - began_s > READ_TIMEOUT_S:
                return True
            if reader.poll(take):
                heard_s = now_s
                continue
            if reader.source is None:
                heard_s = now_s
            is_at_end = reader.position is not None and reader.position >= committed
            if now_s - heard_s > (END_SILENCE_S if is_at_end else SILENCE_S):
                return not is_at_end
            time.sleep(PAUSE_S)
        return False

    def _remember(self, positions: Iterable[int]) -> None:
        for position in positions:
            self._known[position] = None
            self._known.move_to_end(position)
        while len(self._known) > KNOWN_POSITIONS_MAX:
            self._known.popitem(last=False)

    def _describe(self, entry: LogEntry, schemas: LogSchemas | None) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "position": entry.position,
            "kind": entry.kind.value,
            "time_ms": time_ms(entry.timestamp),
            "term": entry.leadership_term_id,
            "session": str(entry.session_id) if entry.session_id >= 0 else "",
            "length": len(entry.payload),
        }
        if entry.arrival_ns is not None:
            shown["arrival_ns"] = str(entry.arrival_ns)
        if entry.kind in WITH_PAYLOAD:
            shown |= readable(entry.payload)
            if schemas is not None:
                shown |= by_schemas(schemas, entry.payload, entry.position)
            if self._decoder is not None:
                shown |= decoded(self._decoder, entry.payload)
        if entry.values is not None:
            shown["values"] = {name: _value(value) for name, value in entry.values._asdict().items()}
        return shown


def open_browser(addresses: Collection[str], decoder: str, log_messages: LogMessages) -> MessageBrowser:
    """Return a browser that goes by a decoder as it was given to the gateway. Raises ConfigurationError."""
    return MessageBrowser(addresses, load_decoder(decoder), log_messages if decoder == BY_LOG else None)


def readable(payload: bytes) -> dict[str, str]:
    """Return a payload as text, or else in hexadecimal digits, as much as there is room for."""
    try:
        text = payload.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    if text and all(one.isprintable() or one in "\n\t" for one in text):
        return {"text": text[:TEXT_LENGTH_MAX]}
    return {"hex": payload[:HEX_BYTES_MAX].hex(" ")}


def decoded(decoder: Decoder, payload: bytes) -> dict[str, str]:
    """Return the decoder's result for a payload, or its error: it is the user's code, and may do anything."""
    try:
        found = decoder(payload)
        text = found if isinstance(found, str) else json.dumps(exact(found), default=str, ensure_ascii=False, indent=1)
    except Exception as error:
        return {"problem": f"{type(error).__name__}: {error}"[:TEXT_LENGTH_MAX]}
    return {"decoded": text[:TEXT_LENGTH_MAX]}


def by_schemas(schemas: LogSchemas, payload: bytes, position: int) -> dict[str, str]:
    """Return what a payload says by the schemas of the log, or why that is not known."""
    found = describe(schemas, payload, position)
    if "problem" in found:
        return {"problem": str(found["problem"])[:TEXT_LENGTH_MAX]}
    return {"decoded": json.dumps(found["message"], ensure_ascii=False, indent=1)[:TEXT_LENGTH_MAX]}


def _value(value: object) -> Any:
    if isinstance(value, bytes):
        return readable(value).get("text", f"{len(value)} bytes")
    return exact(value) if isinstance(value, int | float | str | bool) else str(value)[:TEXT_LENGTH_MAX]
