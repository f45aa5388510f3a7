"""What a watcher asks for: a topic or the log, and from which number on. Bytes from outside, checked here."""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

from aiohttp import web

from ordo.runtime.errors import ConfigurationError
from ordo.service_api.feeds import TOPIC_LENGTH_MAX, is_topic

SEQUENCE_MAX = (1 << 63) - 2
TOKEN_LENGTH_MAX = 4_096
BY_LOG = "log"
PROTOCOL = "ordo.v1"
"""The subprotocol of WebSocket that is agreed on."""
BEARER_PROTOCOL = "bearer."
"""A page cannot set headers of a WebSocket: its token comes as a subprotocol, after this, in URL-safe Base64."""
BEARER = "bearer "


class WatchRequest(NamedTuple):
    """What one watcher wants."""

    topic: str | None
    """None: the committed log."""
    from_sequence: int | None
    """The number of the first message; None: with what comes from now on, or with the oldest."""
    is_oldest: bool = False
    """Begin with the oldest message of the topic that is kept."""
    decodes: bool = False
    """Payloads are shown as the log's schemas say."""


def watch_request(request: web.Request) -> WatchRequest:
    """Return what a request asks for. Raises ConfigurationError."""
    topic = request.match_info.get("topic")
    if topic is not None and not is_topic(topic):
        raise ConfigurationError(
            f"topic {topic[:40]!r}: must have 1 to {TOPIC_LENGTH_MAX} letters, digits, '.', '_' or '-', and begin with "
            "a letter or a digit"
        )
    how = request.query.get("decode", "")
    if how not in ("", BY_LOG):
        raise ConfigurationError(f"decode={how[:40]}: must be {BY_LOG}, for the schemas that the log has, or left out")
    wanted = WatchRequest(topic, None, decodes=bool(how))
    last = request.headers.get("Last-Event-ID", "")
    if last:  # a browser that connects again has the first address, and this is newer
        return wanted._replace(from_sequence=_number("Last-Event-ID", last, 0) + 1)
    begin = request.query.get("from", "live")
    if begin == "live":
        return wanted
    if begin == "oldest" and topic is not None:
        return wanted._replace(is_oldest=True)
    return wanted._replace(from_sequence=_number("from", begin, 1))


def _number(name: str, text: str, least: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 19 and least <= int(text) <= SEQUENCE_MAX):
        allowed = "must be a number of 1 or more, live, or of a topic oldest" if least else "must be a message's number"
        raise ConfigurationError(f"{name}={text[:40]}: {allowed}")
    return int(text)


def token_of(request: web.Request) -> bytes | None:
    """Return the token that a program shows, or None. Raises ConfigurationError.

    Who offers subprotocols must offer ordo.v1: where none fits, the web server logs all of them, tokens too.
    """
    offered = [one.strip() for one in request.headers.get("Sec-WebSocket-Protocol", "").split(",") if one.strip()]
    if offered and PROTOCOL not in offered:
        raise ConfigurationError(f"Sec-WebSocket-Protocol: must offer {PROTOCOL}, before {BEARER_PROTOCOL} and a token")
    text = request.headers.get("Authorization", "")
    if text:
        if not text.lower().startswith(BEARER) or len(text) > TOKEN_LENGTH_MAX:
            raise ConfigurationError(f"Authorization: must be Bearer and a token of at most {TOKEN_LENGTH_MAX} letters")
        try:
            return text[len(BEARER) :].strip().encode()
        except UnicodeEncodeError:
            raise ConfigurationError("Authorization: the token must be UTF-8") from None
    for one in offered:
        if one.startswith(BEARER_PROTOCOL):
            return _decode(one.removeprefix(BEARER_PROTOCOL))
    return None


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise ConfigurationError(f"subprotocol {BEARER_PROTOCOL}: must be a token in URL-safe Base64") from None
