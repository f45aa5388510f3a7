from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple, Self

from ordo.cluster.client.requests.relay_outcome import Outcome
from ordo.cluster.client.requests.request_sending import RequestSession

EXPIRED: str
IDS_NOT_TAKEN: str

class AnswerRun(NamedTuple):
    number: int
    payloads: list[bytes]
    log_positions: list[int]
    sequences: list[int]
    outcomes: list[Outcome]
    identity_position: int
    request_bytes: int

class IdentityLine:
    @property
    def identity(self) -> bytes: ...
    incarnation: int
    open_position: int
    known_position: int
    length_bytes_max: int
    executed: int
    owed: int
    confirmed: int
    sent: int
    @property
    def pending(self) -> dict[int, list[RelayedRequest]]: ...
    unsent: deque[int]
    openers: list[RelayedRequest]
    is_asking: bool
    retry_ns: int
    doublings: int
    trouble: Outcome
    takes_ids: bool
    def __init__(self, identity: bytes, incarnation: int) -> None: ...
    @property
    def is_idle(self) -> bool: ...
    def begin_epoch(self) -> None: ...
    def recede(self, executed: int, confirmed: int) -> None: ...
    def rewind(self) -> None: ...
    def take_all(self) -> list[RelayedRequest]: ...

class RelayedRequest:
    @property
    def line(self) -> IdentityLine: ...
    @property
    def number(self) -> int: ...
    @property
    def payload(self) -> bytes: ...
    @property
    def open_position(self) -> int: ...
    @property
    def outcome(self) -> Outcome | None: ...
    @property
    def log_position(self) -> int: ...
    @property
    def sequence(self) -> int: ...
    @property
    def length_bytes(self) -> int: ...
    @property
    def digest(self) -> bytes | None: ...
    is_sent: bool
    def __init__(
        self,
        line: IdentityLine,
        number: int,
        payload: bytes,
        on_done: Callable[[Self], object] | RelayedStream,
        open_position: int = 0,
        digest: bytes | None = None,
    ) -> None: ...
    def finish(self, outcome: Outcome, payload: bytes, log_position: int = -1, sequence: int = 0) -> int: ...

class RelayedStream:
    def __init__(self, on_change: Callable[[], object]) -> None: ...
    def __len__(self) -> int: ...
    @property
    def first(self) -> RelayedRequest | None: ...
    @property
    def last(self) -> RelayedRequest | None: ...
    def take(self, count_max: int, length_bytes_max: int) -> AnswerRun | None: ...
    def take_all(self) -> list[RelayedRequest]: ...

class RelayWindow:
    _session: RequestSession
    _lines: dict[bytes, IdentityLine]
    _by_incarnation: dict[int, IdentityLine]
    _by_position: dict[int, IdentityLine]
    _active: dict[bytes, IdentityLine]
    _dirty: dict[bytes, IdentityLine]
    _count: int
    def submit(
        self,
        identity: bytes,
        number: int,
        payload: bytes,
        on_done: Callable[[RelayedRequest], object],
        *,
        confirmed: int = 0,
        open_position: int = 0,
        digest: bytes | None = None,
    ) -> RelayedRequest: ...
    def submit_many(
        self,
        stream: RelayedStream,
        identity: bytes,
        number: int,
        payloads: Iterable[bytes],
        *,
        confirmed: int = 0,
        open_position: int = 0,
        digests: Iterable[bytes | None] | None = None,
    ) -> None: ...
    def _line_of(self, identity: bytes) -> IdentityLine: ...
    def _payload_bytes_max(self, line: IdentityLine) -> int: ...
    def _refuse_early(self, line: IdentityLine, request: RelayedRequest, length_bytes_max: int) -> bool: ...
    def _end(self, request: RelayedRequest, outcome: Outcome, text: str) -> None: ...
    def _send_requests(self, line: IdentityLine) -> bool: ...
    def on_answer(
        self, open_position: int, number: int, log_position: int, status: int, payload: bytes, sequence: int = 0
    ) -> None: ...
