from collections import deque
from collections.abc import Callable, Iterable
from types import GenericAlias
from typing import Generic, NamedTuple, Self, overload

from typing_extensions import TypeVar

from ordo.cluster.client.requests.answered import AnsweredRequests
from ordo.cluster.client.requests.journal import Journal
from ordo.cluster.client.requests.request_sending import RequestSession, RequestStamp
from ordo.runtime.errors import OrdoError
from ordo.service_api.messages.request import ReadAnswer, Request
from ordo.service_api.service import Payload

REQUEST_LENGTH_BYTES: int

class Answer(NamedTuple):
    payload: bytes
    log_position: int
    sequence: int | None = None
    def __eq__(self, other: object) -> bool: ...
    def __ne__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

_R = TypeVar("_R", default=Answer, covariant=True)

class PendingRequest(Generic[_R]):
    number: int
    payload: bytes
    was_sent: bool
    @property
    def id(self) -> bytes | None: ...
    @property
    def digest(self) -> bytes | None: ...
    @property
    def answer(self) -> Answer | None: ...
    @property
    def error(self) -> OrdoError | None: ...
    @property
    def value(self) -> _R | None: ...
    @classmethod
    def __class_getitem__(cls, item: object) -> GenericAlias: ...
    def __init__(
        self,
        payload: bytes,
        on_done: Callable[[Self], object] | None,
        wait: Callable[[Self, float | None], None],
        id: bytes | None = None,
    ) -> None: ...
    @property
    def is_done(self) -> bool: ...
    def result(self, timeout_s: float | None = None) -> _R: ...
    def when_done(self, callback: Callable[[Self], object]) -> None: ...
    def finish(self, answer: Answer | None, error: OrdoError | None = None) -> None: ...

class RequestWindow:
    _session: RequestSession
    _journal: Journal | None
    _wait: Callable[[PendingRequest[object], float | None], None]
    _encode: Callable[[PendingRequest[object], RequestStamp], bytes] | None
    _failure: OrdoError | None
    _unnumbered: deque[PendingRequest[object]]
    _pending: dict[int, PendingRequest[object]]
    outstanding_max: int
    _open_position: int
    _length_bytes_max: int
    _number: int
    _sent: int
    _confirmed: int
    _owed: int
    _retry_ns: int
    _doublings: int
    _takes_ids: bool
    @property
    def answered(self) -> AnsweredRequests: ...
    def __len__(self) -> int: ...
    @property
    def has_room(self) -> bool: ...
    @property
    def has_unsent(self) -> bool: ...
    def take(
        self, payload: bytes, on_done: Callable[..., object] | None, id: bytes | None, read: ReadAnswer | None
    ) -> PendingRequest[object]: ...
    @overload
    def submit(
        self,
        payload: bytes,
        on_done: Callable[[PendingRequest], object] | None = None,
        id: bytes | None = None,
        read: None = None,
    ) -> PendingRequest: ...
    @overload
    def submit(
        self, payload: bytes, on_done: Callable[..., object] | None, id: bytes | None, read: ReadAnswer | None
    ) -> PendingRequest[object]: ...
    @overload
    def submit(self, payload: bytes, *, read: ReadAnswer) -> PendingRequest[object]: ...
    def submit_many(
        self, payloads: Iterable[Payload | Request[object]], ids: Iterable[bytes] | None = None
    ) -> list[PendingRequest[object]]: ...
    def _owe(self) -> None: ...
    def _settle(self) -> int: ...
    def _check_length(self, payload: bytes, has_id: bool = False) -> int: ...
    def _take_number(self, pending: PendingRequest[object]) -> int: ...
    def _send_from(self, number: int) -> int: ...
    def _note_answer(self, number: int, log_position: int) -> int: ...
    def on_answer(
        self, open_position: int, number: int, log_position: int, status: int, payload: bytes, sequence: int = 0
    ) -> None: ...
