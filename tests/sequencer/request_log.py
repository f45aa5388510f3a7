"""A log of clients that send again, open their identities again, die and come back, as records, by a seed."""

from __future__ import annotations

import random
from collections.abc import Callable

from ordo.cluster.wire import codecs, ordo_codecs
from ordo.follow.executions import Executions
from ordo.service_api.request_ids import digest_request_id

FIRST_ARRIVAL_NS = 1_700_000_000_000_000_001
IDENTITIES = [bytes([one]) * 16 for one in range(1, 5)]
PRINCIPALS = [b"one", b"two"]


class RequestLog:
    """`write` one record after the other; `append` gives the position after it."""

    def __init__(self, seed: int, append: Callable[[bytes], int], *, has_arrivals: bool = False) -> None:
        """`has_arrivals`: but for each third, messages and requests have the time at which they arrived."""
        self.arrivals: dict[int, int | None] = {}
        """Of messages and requests, by position."""
        self._has_arrivals = has_arrivals
        self.rng = random.Random(seed)
        self.time = 1000
        self.table = Executions()
        """So that clients know mostly which number is next."""
        self._append_record = append
        self._sessions: list[int] = []
        self._next_session = 1
        self._opened: list[int] = [0]
        """Positions that requests may name."""
        self.requests = 0

    def write(self) -> int:
        """Appends a record of some kind and returns the position after it."""
        self.time += self.rng.choice((0, 1, 5))
        draw = self.rng.random()
        if not self._sessions or draw < 0.03:
            return self._open_session()
        if draw < 0.05:
            return self._close_session()
        if draw < 0.12 or len(self._opened) == 1:
            return self._open_identity()
        if draw < 0.2:
            return self._append_message(codecs.SESSION_MESSAGE_HEADER.encode(**self._stamp()) + b"message")
        return self._request()

    def _append(self, record: bytes) -> int:
        position = self._append_record(record)
        self.table.note(position, record)
        return position

    def _append_message(self, record: bytes) -> int:
        arrival_ns = None
        if self._has_arrivals and len(self.arrivals) % 3:
            arrival_ns = FIRST_ARRIVAL_NS + len(self.arrivals)
            record = with_arrival(record, arrival_ns)
        position = self._append(record)
        self.arrivals[position] = arrival_ns
        return position

    def _stamp(self) -> dict[str, int]:
        session_id = self.rng.choice(self._sessions)
        return {"leadership_term_id": 0, "cluster_session_id": session_id, "timestamp": self.time}

    def _open_session(self) -> int:
        session_id, self._next_session = self._next_session, self._next_session + 1
        self._sessions.append(session_id)
        return self._append(
            codecs.SESSION_OPEN_EVENT.encode(
                leadership_term_id=0,
                correlation_id=session_id,
                cluster_session_id=session_id,
                timestamp=self.time,
                response_stream_id=102,
                response_channel="aeron:udp?endpoint=client:1",
                encoded_principal=PRINCIPALS[session_id % 9 == 8],
            )
        )

    def _close_session(self) -> int:
        """Its requests may still come after it: from a leader that had them before."""
        session_id = self.rng.choice(self._sessions)
        if self.rng.random() < 0.8:
            self._sessions.remove(session_id)
        return self._append(
            codecs.SESSION_CLOSE_EVENT.encode(
                leadership_term_id=0, cluster_session_id=session_id, timestamp=self.time, close_reason=0
            )
        )

    def _open_identity(self) -> int:
        position = self._append(
            ordo_codecs.OPEN_IDENTITY.encode(
                incarnation=self.rng.choice((1, 2, 3)),
                known_position=self.rng.choice((0, 0, 0, 0, -1, self.rng.choice(self._opened))),
                **ordo_codecs.split_identity(self.rng.choice(IDENTITIES)),
                **self._stamp(),
            )
        )
        self._opened.append(position)
        self._opened = self._opened[-40:]
        return position

    def _request(self) -> int:
        in_use = [one for one in self._opened if self.table.get(one) is not None]
        open_position = self.rng.choice(in_use if in_use and self.rng.random() < 0.85 else self._opened)
        identity = self.table.get(open_position)
        executed = identity.number if identity is not None else 0
        number = max(1, executed + self.rng.choice((1, 1, 1, 1, 0, -1, 2)))
        self.requests += 1
        fields = {"open_position": open_position, "number": number, **self._stamp()}
        confirmed = max(0, executed - self.rng.choice((0, 1, 3, 9)))
        payload = b"request %d" % self.requests
        if self.rng.random() < 0.1:
            chosen = self.rng.randrange(40)
            digest = ordo_codecs.split_request_digest(digest_request_id(b"%d" % chosen))
            output = ordo_codecs.OUTPUT_BY_ID.encode(confirmed=confirmed, target_session_id=-1, **digest, **fields)
            return self._append_message(output + b"for id %d" % chosen)
        if self.rng.random() < 0.2:
            return self._append_message(
                ordo_codecs.OUTPUT.encode(confirmed=confirmed, target_session_id=-1, **fields) + payload
            )
        if self.rng.random() < 0.3:
            chosen = self.rng.randrange(40)
            digest = ordo_codecs.split_request_digest(digest_request_id(b"%d" % chosen))
            payload = b"for id %d" % (chosen if self.rng.random() < 0.9 else -1)
            return self._append_message(
                ordo_codecs.REQUEST_BY_ID.encode(confirmed=confirmed, **digest, **fields) + payload
            )
        return self._append_message(ordo_codecs.REQUEST.encode(confirmed=confirmed, **fields) + payload)


def with_arrival(record: bytes, arrival_ns: int) -> bytes:
    """What a leader makes of a message or a request that arrived then."""
    length = int.from_bytes(record[:2], "little")
    template = b"\x97\x00" if record[2:6] == b"\x29\x00\x85\x03" else record[2:4]
    time = arrival_ns.to_bytes(8, "little", signed=True)
    return (length + 8).to_bytes(2, "little") + template + record[4 : 8 + length] + time + record[8 + length :]
