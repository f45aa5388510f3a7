"""What a receiver says to the sender of a stream, made by hand from the stream's SETUP."""

from __future__ import annotations

import struct

DATA, NAK, STATUS, ERROR, SETUP = 1, 2, 3, 4, 5
SEND_SETUP, END_OF_STREAM = 0x80, 0x40


def asking_for_setup(frame: bytes) -> bytes:
    """What a receiver answers to a DATA frame of a stream that it does not know."""
    return struct.pack("<iBBH", 36, 0, SEND_SETUP, STATUS) + frame[12:20] + bytes(20)


class ReceiverFrames:
    """Positions may be anything; they are put into term and offset as those of the stream are."""

    def __init__(self, setup: bytes) -> None:
        self.names = setup[12:20]
        self.session_id, self.stream_id, self.initial_term_id = struct.unpack_from("<iii", setup, 12)
        self.term_length: int = struct.unpack_from("<i", setup, 28)[0]

    def position_of(self, frame: bytes) -> int:
        """Of a DATA frame of the stream."""
        offset, term_id = (int.from_bytes(frame[at : at + 4], "little", signed=True) for at in (8, 20))
        term_count: int = (term_id - self.initial_term_id) % 2**32
        return term_count * self.term_length + offset

    def status(self, position: int, window: int, flags: int = 0, receiver_id: int = 1) -> bytes:
        """A status message: consumed up to here, and room for so much more."""
        return self._frame(STATUS, self._place(position) + struct.pack("<iq", window, receiver_id), flags)

    def nak(self, position: int, length: int) -> bytes:
        return self._frame(NAK, self._place(position) + struct.pack("<i", length))

    def refusal(self, receiver_id: int, text: bytes) -> bytes:
        """An ERR frame: the receiver wants the stream no more."""
        body = struct.pack("<qqii", receiver_id, 0, 1, len(text)) + text
        return self._frame(ERROR, body)

    def _place(self, position: int) -> bytes:
        term_id = (self.initial_term_id + position // self.term_length + 2**31) % 2**32 - 2**31
        return struct.pack("<ii", term_id, position % self.term_length & ~31)

    def _frame(self, kind: int, tail: bytes, flags: int = 0) -> bytes:
        return struct.pack("<iBBH", 16 + len(tail), 0, flags, kind) + self.names + tail
