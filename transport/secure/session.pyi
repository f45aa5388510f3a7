from typing import Any

class SecureSession:
    local_index: int
    remote_index: int
    identity: bytes
    sent_count: int
    renew_ns: int
    expire_ns: int
    is_confirmed: bool
    def __init__(
        self,
        suite: int,
        keys: tuple[bytes, bytes],
        *,
        local_index: int,
        remote_index: int,
        identity: bytes,
        is_confirmed: bool,
        renew_ns: int,
        expire_ns: int,
    ) -> None: ...
    def take(self, number: int) -> bool: ...

class SecurePeer:
    packed: bytes
    name: tuple[str, int]
    current: SecureSession | None
    previous: SecureSession | None
    next: SecureSession | None
    calling: Any
    attend_ns: int
    used_ns: int
    heard_ns: int
    attempt_count: int
    answered_ephemeral: bytes
    answer: bytes
    held: list[tuple[bytes, int]]
    held_bytes: int
    def __init__(self, packed: bytes, now_ns: int) -> None: ...
    def call(self, calling: object) -> None: ...
    def end_call(self) -> None: ...
    def sessions(self) -> list[SecureSession]: ...
    def adopt(self, session: SecureSession) -> SecureSession | None: ...
    def await_proof(self, session: SecureSession) -> SecureSession | None: ...
    def drop(self, session: SecureSession) -> None: ...
