"""Bounds of feeds: what may be published, and under which names (docs/CLIENT.md, Feeds)."""

from __future__ import annotations

import re
from collections.abc import Collection

from ordo.runtime.errors import ServiceError

TOPICS_MAX = 32
"""Each has a stream of its own: 768 KiB of shared memory where it is published, and a recording."""
TOPIC_LENGTH_MAX = 64
PAYLOAD_BYTES_MAX = 32_000
RECORD_BYTES_MAX = 4 * 1024 * 1024
"""What the callbacks of one record of the log may publish. It is kept until the record is executed."""
_TOPIC = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def is_topic(name: object) -> bool:
    """Return whether a topic may have this name: letters, digits, '.', '_' and '-', the first a letter or a digit."""
    return isinstance(name, str) and _TOPIC.fullmatch(name) is not None


def check_publication(topic: str, length_bytes: int, topics: Collection[str] = ()) -> None:
    """Raise ServiceError for a topic or a length that is not allowed.

    Also for one topic more than there may be besides `topics`.
    """
    if not is_topic(topic):
        raise ServiceError(
            f"topic {topic!r}: must have 1 to {TOPIC_LENGTH_MAX} letters, digits, '.', '_' or '-', and begin with a "
            "letter or a digit"
        )
    if length_bytes > PAYLOAD_BYTES_MAX:
        raise ServiceError(f"topic {topic}: a message of {length_bytes} bytes; at most {PAYLOAD_BYTES_MAX} are allowed")
    if topic not in topics and len(topics) >= TOPICS_MAX:
        raise ServiceError(f"topic {topic}: there are {TOPICS_MAX} topics already, which is the limit")
