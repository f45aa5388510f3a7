from collections.abc import Callable, Iterable, Mapping

from ordo.service_api.cluster import ClientSession
from ordo.service_api.messages.codec import MessageSet
from ordo.service_api.native import Header

class Handler: ...

class Dispatch:
    def __init__(
        self, messages: MessageSet, handlers: Mapping[type, tuple[Callable[..., object], bool, tuple[type, ...]]]
    ) -> None: ...

def dispatch(
    self: object, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
) -> bytes | None: ...
def dispatch_of(service: object) -> Dispatch | None: ...
def describe_wrong_answer(
    owner: type, handler: Callable[..., object], message: object, answer: object, allowed: tuple[type, ...]
) -> str: ...
def names_of(types: Iterable[object]) -> str: ...
