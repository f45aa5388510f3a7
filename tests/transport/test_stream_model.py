"""Publications and images against a slow, obvious model, byte for byte (log-buffer.md §3-§5, §8)."""

from __future__ import annotations

import struct
from collections import deque
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ordo.transport.streams.image import Action, Header
from ordo.transport.streams.publication import RESULT_ADMIN_ACTION, RESULT_BACK_PRESSURED, RESULT_NOT_CONNECTED
from tests.transport.logs import INITIAL_TERM_ID, SESSION_ID, STREAM_ID, TERM_LENGTH, make_stream

BEGIN, END = 0x80, 0x40
DATA, PAD = 1, 0


def aligned(length: int) -> int:
    return -(-length // 32) * 32


class Model:
    """A log as three lists of bytes, and the frames that a reader has not seen yet."""

    def __init__(self, mtu: int) -> None:
        self.payload_max = mtu - 32
        self.terms = [bytearray(TERM_LENGTH) for _ in range(3)]
        self.count = 0
        self.offset = 0
        self.limit = 0
        self.connected = False
        self.unread: deque[tuple[bytes, int, int]] = deque()  # (payload, flags, position after)
        self.read_position = 0
        self.clean_position = 0

    @property
    def position(self) -> int:
        return self.count * TERM_LENGTH + self.offset

    def _frame(self, payload: bytes, flags: int, kind: int, length: int) -> None:
        term_id = (INITIAL_TERM_ID + self.count + (1 << 31)) % (1 << 32) - (1 << 31)
        header = struct.pack("<iBBHiiiiq", length, 0, flags, kind, self.offset, SESSION_ID, STREAM_ID, term_id, 0)
        term = self.terms[self.count % 3]
        term[self.offset : self.offset + 32 + len(payload)] = header + payload
        self.offset += aligned(length)

    def reserve(self, required: int) -> int | None:
        """None when there is room, else the code."""
        if self.position >= self.limit:
            return RESULT_BACK_PRESSURED if self.connected else RESULT_NOT_CONNECTED
        if self.offset + required <= TERM_LENGTH:
            return None
        if self.offset < TERM_LENGTH:
            self._frame(b"", BEGIN | END, PAD, TERM_LENGTH - self.offset)
        self.count += 1
        self.offset = 0
        return RESULT_ADMIN_ACTION

    def offer(self, payload: bytes) -> int:
        pieces = [payload[i : i + self.payload_max] for i in range(0, len(payload), self.payload_max)] or [b""]
        refused = self.reserve(sum(aligned(32 + len(piece)) for piece in pieces))
        if refused:
            return refused
        for number, piece in enumerate(pieces):
            flags = (BEGIN if number == 0 else 0) | (END if number == len(pieces) - 1 else 0)
            self._frame(piece, flags, DATA, 32 + len(piece))
            self.unread.append((piece, flags, self.position))
        return self.position

    def pad(self, payload_length: int, body: bytes = b"") -> int:
        refused = self.reserve(aligned(32 + payload_length))
        if refused:
            return refused
        self._frame(body, BEGIN | END, PAD, 32 + payload_length)
        return self.position

    def clean(self, target: int) -> None:
        while self.clean_position < target:
            start = self.clean_position % TERM_LENGTH
            length = min(target - self.clean_position, TERM_LENGTH - start)
            self.terms[self.clean_position // TERM_LENGTH % 3][start : start + length] = bytes(length)
            self.clean_position += length


class StreamMachine(RuleBasedStateMachine):
    exclusive = False

    @initialize(mtu=st.sampled_from([64, 96, 1408, 4096, 65504]))
    def start(self, mtu: int) -> None:
        self.stream = make_stream(exclusive=self.exclusive, mtu=mtu, limit=0)
        self.publication = self.stream.publication
        self.image = self.stream.image()
        self.model = Model(mtu)
        self.number = 0

    def payload(self, length: int) -> bytes:
        self.number += 1
        return (struct.pack("<I", self.number) * (length // 4 + 1))[:length]

    @rule(window=st.sampled_from([0, 32, 64, 4096, TERM_LENGTH // 2]), connected=st.booleans())
    def open_window(self, window: int, connected: bool) -> None:
        self.model.limit = max(self.model.limit, self.model.read_position + window)
        self.model.connected = connected
        self.stream.limit.set(self.model.limit)
        self.stream.log.connected = connected

    @rule(length=st.one_of(st.integers(0, 300), st.integers(0, TERM_LENGTH // 8)), parts=st.integers(1, 3))
    def offer(self, length: int, parts: int) -> None:
        payload = self.payload(length)
        cut = length // parts
        pieces = [payload[i * cut : (i + 1) * cut] for i in range(parts - 1)] + [payload[(parts - 1) * cut :]]
        assert self.publication.offer(*pieces) == self.model.offer(payload)

    @rule(fragments=st.integers(0, 6), edge=st.integers(-1, 1))
    def offer_at_an_mtu_edge(self, fragments: int, edge: int) -> None:
        payload = self.payload(max(0, min(fragments * self.model.payload_max + edge, TERM_LENGTH // 8)))
        assert self.publication.offer(bytearray(payload)) == self.model.offer(payload)

    @rule()
    def offer_what_fills_the_term(self) -> None:
        rest = TERM_LENGTH - self.model.offset
        if 32 <= rest <= min(TERM_LENGTH // 8, self.model.payload_max):
            payload = self.payload(rest - 32)
            assert self.publication.offer(memoryview(payload)) == self.model.offer(payload)

    @rule(length=st.integers(0, 500), commits=st.booleans())
    def claim(self, length: int, commits: bool) -> None:
        length = min(length, self.model.payload_max)
        payload = self.payload(length)
        expected = self.model.offer(payload) if commits else self.model.pad(length, payload)
        with self.publication.try_claim(length) as claim:
            assert claim.position == expected
            if claim:
                claim.buffer[:] = payload
                if not commits:
                    claim.abort()

    @precondition(lambda self: self.exclusive)
    @rule(length=st.integers(0, TERM_LENGTH // 8))
    def pad(self, length: int) -> None:
        assert self.stream.exclusive.offer_padding(length) == self.model.pad(length)

    @rule(limit=st.integers(1, 50), mode=st.sampled_from(["poll", "bounded", "controlled", "whole", "block"]))
    def read(self, limit: int, mode: str) -> None:
        getattr(self, "_read_" + mode)(limit)
        self.clean()

    def _expect(self, found: list[tuple[bytes, int, int]]) -> None:
        """The reader is behind what it took and, padding aside, before what it did not take."""
        for payload, flags, after in found:
            assert (payload, flags, after) == self.model.unread.popleft()
            assert self.image.position >= after
        if self.model.unread:
            payload, _, after = self.model.unread[0]
            assert self.image.position <= after - aligned(32 + len(payload))

    def _read_poll(self, limit: int) -> None:
        found = []
        count = self.image.poll(lambda p, h: found.append((p, h.flags, h.position)), limit)
        assert count == len(found) == min(limit, len(self.model.unread))
        self._expect(found)

    def _read_bounded(self, limit: int) -> None:
        bound = self.image.position + 32 * limit
        found = []
        self.image.bounded_poll(lambda p, h: found.append((p, h.flags, h.position, h.start_position)), bound, 1000)
        assert all(start < bound for _, _, _, start in found)
        self._expect([entry[:3] for entry in found])
        if self.model.unread:
            payload, _, after = self.model.unread[0]
            assert after - aligned(32 + len(payload)) >= bound

    def _read_controlled(self, limit: int) -> None:
        found: list[tuple[bytes, int, int]] = []

        def handler(payload: bytes, header: Header) -> Action:
            if len(found) == limit:
                return Action.ABORT
            found.append((payload, header.flags, header.position))
            return Action.COMMIT if len(found) % 2 else Action.CONTINUE

        count = self.image.controlled_poll(handler, 1000)
        assert count == len(found) == min(limit, len(self.model.unread))
        self._expect(found)

    def _read_whole(self, limit: int) -> None:
        if self.model.unread and not self.model.unread[0][1] & BEGIN:
            return
        whole: deque[list[Any]] = deque()
        for payload, flags, after in self.model.unread:
            if flags & BEGIN:
                whole.append([payload, flags, after])
            else:
                whole[-1][0] += payload
                whole[-1][1] |= flags
                whole[-1][2] = after
        found: list[list[Any]] = []
        count = self.image.poll_messages(lambda p, h: found.append([p, h.flags, h.position]), limit)
        assert count == len(found) == min(limit, len(whole))
        for message in found:
            assert message == whole.popleft()
            while self.model.unread and self.model.unread[0][2] <= message[2]:
                self.model.unread.popleft()

    def _read_block(self, limit: int) -> None:
        def handler(frames: memoryview, session_id: int, term_id: int) -> None:
            offset = 0
            assert session_id == SESSION_ID
            while offset < len(frames):
                length, _, flags, kind, _, _, _, frame_term_id, _ = struct.unpack_from("<iBBHiiiiq", frames, offset)
                assert frame_term_id == term_id
                if kind == DATA:
                    payload, expected_flags, _ = self.model.unread.popleft()
                    assert bytes(frames[offset + 32 : offset + length]) == payload
                    assert flags == expected_flags
                offset += aligned(length)
            assert offset == len(frames)

        before = self.image.position
        assert self.image.block_poll(handler, 32 * limit) == self.image.position - before

    def clean(self) -> None:
        """Cleans as the driver does: a term behind the reader, so that the next term is clean when it is reached."""
        self.model.read_position = self.image.position
        self.model.clean(self.model.read_position - TERM_LENGTH)
        position = getattr(self, "cleaned", 0)
        while position < self.model.read_position - TERM_LENGTH:
            position = self.stream.log.clean_range(position, self.model.read_position - TERM_LENGTH)
        self.cleaned = position

    @invariant()
    def log_is_the_model_byte_for_byte(self) -> None:
        if not hasattr(self, "model"):
            return
        with self.stream.log.view() as view:
            for index, term in enumerate(self.model.terms):
                assert view[index * TERM_LENGTH : (index + 1) * TERM_LENGTH] == term
        assert self.publication.position == self.model.position
        assert self.stream.log.tail_position == self.model.position
        assert self.stream.log.term_count == self.model.count
        assert self.publication.position_limit == self.model.limit

    def teardown(self) -> None:
        if hasattr(self, "model") and all(flags == BEGIN | END for _, flags, _ in self.model.unread):
            found = []
            while self.image.poll(lambda p, h: found.append((p, h.flags, h.position)), 1000):
                pass
            assert found == list(self.model.unread)


class ExclusiveStreamMachine(StreamMachine):
    exclusive = True


STEPS = settings(max_examples=40, stateful_step_count=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("machine", [StreamMachine, ExclusiveStreamMachine])
def test_against_the_model(machine: type[StreamMachine]) -> None:
    case = machine.TestCase
    case.settings = STEPS
    case("runTest").runTest()
