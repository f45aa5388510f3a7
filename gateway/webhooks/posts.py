"""One message as a POST, and what its receiver answers."""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from hashlib import blake2b
from types import SimpleNamespace
from typing import Self

import aiohttp

from ordo.follow.entries import LogEntry
from ordo.gateway.watching.watched_items import item_of_log
from ordo.gateway.webhooks.settings import CONTENT_TYPES, Body, WebhookSettings
from ordo.gateway.webhooks.signing import sign
from ordo.runtime.errors import OrdoError
from ordo.runtime.version import VERSION

ID_BYTES = 16
RETRY_AFTER_MAX_S = 3600.0
GONE = 410
LATER = (408, 425, 429)
"""Statuses of 4xx with which a receiver asks to come again."""
REASON_BYTES_MAX = 200
"""So much of a refusal is shown."""
_KEY = struct.Struct("<qqqq")


class ReceiverGoneError(OrdoError):
    """The receiver said with status 410 that it wants no posts any more."""


def id_of(entry: LogEntry) -> str:
    """Return what names a message: the same for each try, from whichever process, and never that of another message.

    It is a hash of what the log has, so it outlives restarts of the cluster, a backup and a standby's promotion.
    """
    key = _KEY.pack(entry.leadership_term_id, entry.position, entry.timestamp, entry.session_id)
    return blake2b(key + entry.payload, digest_size=ID_BYTES, person=b"ordo webhook").hexdigest()


@dataclass(frozen=True)
class Post:
    """What is sent for a message; the headers that change with each try are added by `Receiver`."""

    id: str
    body: bytes
    headers: dict[str, str]
    position: int

    @classmethod
    def of(cls, entry: LogEntry, body: Body, content_type: str) -> Self:
        """Return the post for a message."""
        message_id = id_of(entry)
        headers = {
            "content-type": content_type or CONTENT_TYPES[body],
            "webhook-id": message_id,
            "idempotency-key": f'"{message_id}"',
            "ordo-position": str(entry.position),
            "ordo-kind": entry.kind.value,
        }
        if entry.sequence:
            headers["ordo-sequence"] = str(entry.sequence)
        if entry.request_number:
            headers["ordo-request"] = f"{entry.identity.hex()}-{entry.request_number}"
        if entry.arrival_ns is not None:
            headers["ordo-arrival"] = str(entry.arrival_ns)
        sent = entry.payload if body == "payload" else item_of_log(entry).text.encode()
        return cls(message_id, sent, headers, entry.position)


@dataclass(frozen=True)
class Outcome:
    """What became of one try."""

    reason: str = ""
    """Why the message was not taken; empty: it was."""
    retry_after_s: float = 0.0
    """The receiver wants no further try before."""
    is_refusal: bool = False
    """The receiver has looked at the message, and will not have it: a status of 4xx that says nothing of later."""
    was_sent: bool = True
    """The receiver may have seen the message: there was a connection, and the request was begun."""

    @property
    def is_taken(self) -> bool:
        """Whether the receiver has it."""
        return not self.reason


class Receiver:
    """Where posts go; an asynchronous context manager, which keeps connections open between posts."""

    def __init__(self, settings: WebhookSettings) -> None:
        self._settings = settings
        self._session: aiohttp.ClientSession | None = None
        self._trace = aiohttp.TraceConfig()
        self._trace.on_request_headers_sent.append(_note_sent)

    async def __aenter__(self) -> Self:
        settings = self._settings
        context = settings.tls_context()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=True if context is None else context),
            timeout=aiohttp.ClientTimeout(total=settings.timeout_s),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"user-agent": f"ordo/{VERSION}", **settings.headers},
            auto_decompress=False,  # the answer is not read for what it says
            trace_configs=[self._trace],
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def send(self, post: Post) -> Outcome:
        """Try once. Raises ReceiverGoneError."""
        assert self._session is not None
        sent: list[bool] = []
        try:
            async with self._session.post(
                self._settings.url,
                data=post.body,
                headers=self._headers(post),
                allow_redirects=False,
                trace_request_ctx=sent,
            ) as answer:
                if answer.status == GONE:
                    raise ReceiverGoneError(
                        f"{self._settings.receiver} wants no posts any more (410), nor that of {post.position}"
                    )
                reason = await _read_reason(answer) if answer.status >= 300 else b""
                return outcome_of(answer.status, reason, answer.headers.get("retry-after", ""))
        except TimeoutError:
            return Outcome(f"no answer within {self._settings.timeout_s:g} s", was_sent=any(sent))
        except aiohttp.ClientResponseError as error:  # its text has the URL
            return Outcome(f"no answer of HTTP: {_in_one_line(error.message)}")
        except (aiohttp.ClientError, OSError, ValueError) as error:  # the last two are of names that are none
            return Outcome(f"{type(error).__name__}: {_in_one_line(str(error))}", was_sent=any(sent))

    def _headers(self, post: Post) -> dict[str, str]:
        now_s = int(time.time())
        more = {"webhook-timestamp": str(now_s)}
        if self._settings.secrets:
            more["webhook-signature"] = sign(self._settings.secrets, post.id, now_s, post.body)
        return post.headers | more


async def _note_sent(_: aiohttp.ClientSession, context: SimpleNamespace, __: object) -> None:
    """Note that a request is on its way, in the list that was given with it."""
    context.trace_request_ctx.append(True)


async def _read_reason(answer: aiohttp.ClientResponse) -> bytes:
    """Return the first bytes of an answer's body, none if they do not come: its status counts all the same."""
    try:
        return await answer.content.read(REASON_BYTES_MAX)
    except (TimeoutError, aiohttp.ClientError):
        return b""


def outcome_of(status: int, reason: bytes, retry_after: str) -> Outcome:
    """Return what a status means: 2xx is taken, and nothing else is."""
    if 200 <= status < 300:
        return Outcome()
    if 300 <= status < 400:
        return Outcome(
            f"status {status}: a redirect is not followed; give the URL where it leads", _seconds(retry_after)
        )
    text = _in_one_line(reason.decode(errors="replace"))
    is_refusal = 400 <= status < 500 and status not in LATER
    return Outcome(f"status {status}{': ' + text if text else ''}", _seconds(retry_after), is_refusal)


def _in_one_line(text: str) -> str:
    return " ".join(text.split())[:REASON_BYTES_MAX]


def _seconds(retry_after: str) -> float:
    """Return how long a Retry-After asks to wait, an hour at most; 0 for one that says nothing."""
    if retry_after.isdecimal() and retry_after.isascii():
        return min(float(retry_after[:9]), RETRY_AFTER_MAX_S)
    try:
        until = parsedate_to_datetime(retry_after)
    except (ValueError, OverflowError):
        return 0.0
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    return min(max((until - datetime.now(UTC)).total_seconds(), 0.0), RETRY_AFTER_MAX_S)


def pause_s(failures: int, outcome: Outcome, least_s: float, most_s: float, drawn: float) -> float:
    """Return how long to wait after a number of failures in a row, from 1; `drawn` from 0 to 1 keeps hooks apart.

    Doubled each time, and between half and the whole of that; but never less than the receiver asks for.
    """
    whole_s = min(least_s * 2.0 ** min(failures - 1, 62), most_s)
    return max(whole_s * (0.5 + drawn / 2), outcome.retry_after_s)
