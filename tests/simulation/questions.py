"""What a query of a simulated client asks of the service, and what the service answers."""

from __future__ import annotations

import struct
from typing import NamedTuple

_QUESTION = struct.Struct("<q")
_ANSWER = struct.Struct("<q16s")


class Answer(NamedTuple):
    """What a register holds, and the hash over all records that the service had executed."""

    value: int
    digest: str

    def encode(self) -> bytes:
        return _ANSWER.pack(self.value, self.digest.encode())


def encode_question(register: int) -> bytes:
    return _QUESTION.pack(register)


def decode_question(payload: bytes) -> int:
    (register,) = _QUESTION.unpack(payload)
    return int(register)


def decode_answer(payload: bytes) -> Answer:
    value, digest = _ANSWER.unpack(payload)
    return Answer(value, digest.rstrip(b"\0").decode())
