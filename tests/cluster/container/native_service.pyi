from typing import Any

from ordo.service_api.native import NativeClusteredService

class NativeEcho(NativeClusteredService):
    calls: list[tuple[Any, ...]]
    last_result: int
    def __init__(self) -> None: ...

class NativeReply(NativeClusteredService): ...
