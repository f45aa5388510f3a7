"""A check with messages that no honest client sends: none of them may stop a service.

    check_hostile(MyService, inputs)

An exception in a callback stops a service on all members alike. So whatever a client can send must be executed, or
refused with `Reject` before anything has changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import cycle, islice
from typing import TYPE_CHECKING

from ordo.runtime.errors import ServiceError
from ordo.runtime.random import RandomSource
from ordo.service_api.service import Service, TimeUnit
from ordo.service_api.testing.harness import AdvanceTime, Input, Message, OpenSession, ServiceHarness

if TYPE_CHECKING:
    from random import Random

PAYLOAD_BYTES_MAX = 1 << 16
SHOWN_BYTES = 60
TIMERS_EVERY, TIMERS_AFTER_S = 100, 60
"""Time passes after each hundred messages, so that timers fire."""
WORD = re.compile(rb"[\w.+-]+")
LONG_NUMBER = b"9" * 5_000
"""More digits than `int` and `str` convert."""
WORDS: Sequence[bytes] = (
    *(b"", b"0", b"-1", b"1_0", b"0.1", b"1e999", b"nan", b"null", b"true", b"[]", b"{}", b"a" * 5_000, LONG_NUMBER),
    *(str(2**power + more).encode() for power in (31, 32, 63, 64) for more in (-1, 0)),
    *("²".encode(), "٣".encode(), b'"\\ud800"', b"\0", b"\xff"),
)
"""What numbers, names and values are replaced by."""
WHOLE: Sequence[bytes] = (b"", b"\0", b"\xff" * 8, bytes(range(256)), b"-", b"[" * 50_000, b'{"a":' * 5_000, *WORDS)
"""Payloads that have nothing of the service's own messages."""
EDGES: Sequence[bytes] = (b"\0", b"\xff", b"\x7f", b"\x80")
"""Bytes of which the least and the largest numbers are made."""


def check_hostile(
    make_service: Callable[[], Service],
    inputs: Iterable[Input],
    *,
    tries: int = 2_000,
    seed: int = 1,
    time_unit: TimeUnit = TimeUnit.MILLIS,
) -> None:
    """Look for a message with which a client stops a service, or changes it though the message is refused.

    The inputs are executed first, then `tries` messages that are made of theirs by replacing words and numbers, cutting
    and lengthening; the same ones for the same `seed`. Where inputs have an `arrival_ns`, each second has one of
    theirs. Raises ServiceError with the first that makes the service raise anything but Reject, that is refused after
    the state has changed, or behind which the service cannot be restored from its snapshot; ValueError if the inputs
    have no message of a client.
    """
    items = list(inputs)
    samples = [one.payload for one in items if isinstance(one, Message) and one.session_id is not None]
    if not samples:
        raise ValueError("inputs: give messages of clients, of which hostile ones are made")
    harness = ServiceHarness(make_service, time_unit=time_unit).execute(*items)
    session_id = _choose_session(harness, items)
    known = [one.arrival_ns for one in items if isinstance(one, Message) and one.arrival_ns is not None]
    arrivals = cycle([one for arrival_ns in known for one in (None, arrival_ns)] or [None])
    for number, payload in enumerate(islice(hostile_payloads(samples, RandomSource(seed).stream("hostile")), tries)):
        if number % TIMERS_EVERY == 0:
            state = _fire_timers(harness)
        done = len(harness.effects)
        message = Message(session_id, harness.time, payload, arrival_ns=next(arrivals))
        try:
            harness.execute(message)
            after = harness.take_snapshot().messages
        except Exception as error:
            raise ServiceError(
                f"a client can stop it: {_show(message)} raises {type(error).__name__}: {error}; refuse it with Reject "
                "before anything changes"
            ) from error
        is_refused = any(one.kind == "reject" and one.key == session_id for one in harness.effects[done:])
        if after != state and is_refused:
            raise ServiceError(f"a refused message has changed the state: {_show(message)}; raise Reject before that")
        state = after
    _check_restored(make_service, harness)


def _choose_session(harness: ServiceHarness, items: Sequence[Input]) -> int:
    """Return the session of the last message while it is open: it may have shown who it is. Else open another."""
    spoke = [one.session_id for one in items if isinstance(one, Message) and one.session_id is not None]
    if harness.get_client_session(spoke[-1]) is not None:
        return spoke[-1]
    opened = [one for one in items if isinstance(one, OpenSession)]
    session_id = 1 + max(one.session_id for one in opened)
    harness.execute(OpenSession(session_id, harness.time, opened[-1].encoded_principal))
    return session_id


def _fire_timers(harness: ServiceHarness) -> tuple[bytes, ...]:
    """Let time pass; return the state behind it."""
    try:
        harness.execute(AdvanceTime(harness.time + harness.time_unit.duration(seconds=TIMERS_AFTER_S)))
        return harness.take_snapshot().messages
    except Exception as error:
        raise ServiceError(
            f"a client can stop it: a timer that it has set raises {type(error).__name__}: {error}"
        ) from error


def _check_restored(make_service: Callable[[], Service], harness: ServiceHarness) -> None:
    snapshot = harness.take_snapshot()
    try:
        restored = ServiceHarness(make_service, snapshot=snapshot, time_unit=harness.time_unit).take_snapshot()
    except Exception as error:
        raise ServiceError(
            f"a client can keep it from starting: its snapshot after hostile messages raises {type(error).__name__}: "
            f"{error}"
        ) from error
    if restored.messages != snapshot.messages:
        raise ServiceError("after hostile messages, a service that is restored from its snapshot has another state")


def hostile_payloads(samples: Sequence[bytes], random: Random) -> Iterator[bytes]:
    """Yield payloads without end, the same ones for the same generator: WHOLE, then changed samples."""
    yield from WHOLE
    while True:
        payload = random.choice(samples)
        for _ in range(random.choice((1, 1, 1, 2))):
            payload = random.choice(CHANGES)(payload, random)
        yield payload[:PAYLOAD_BYTES_MAX]


def _replace_word(payload: bytes, random: Random) -> bytes:
    words = list(WORD.finditer(payload))
    if not words:
        return random.choice(WORDS)
    word = random.choice(words)
    return payload[: word.start()] + random.choice(WORDS) + payload[word.end() :]


def _set_number(payload: bytes, random: Random) -> bytes:
    """Replace the bytes of a binary number by one of the least or the largest."""
    width = random.choice((1, 2, 4, 8))
    start = random.randrange(max(len(payload) - width, 0) + 1)
    low, high = random.choice(EDGES), random.choice(EDGES)
    return payload[:start] + low * (width - 1) + high + payload[start + width :]


def _cut(payload: bytes, random: Random) -> bytes:
    return payload[: random.randrange(len(payload) + 1)]


def _lengthen(payload: bytes, random: Random) -> bytes:
    return payload + random.choice((b" ", b"\0", payload, random.randbytes(9), *WORDS))


CHANGES: Sequence[Callable[[bytes, Random], bytes]] = (_replace_word, _replace_word, _set_number, _cut, _lengthen)


def _show(message: Message) -> str:
    payload, arrival_ns = message.payload, message.arrival_ns
    arrival = "" if arrival_ns is None else f" with arrival_ns={arrival_ns}"
    if len(payload) <= SHOWN_BYTES:
        return f"payload {payload!r}{arrival}"
    return f"payload {payload[:SHOWN_BYTES]!r}... of {len(payload)} bytes{arrival}"
