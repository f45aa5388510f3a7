"""Doors of decoders: messages of cluster and archive, and segment files."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any

from ordo.archive.archive import Archive
from ordo.archive.inspection.recording_inspection import verify
from ordo.archive.protocol import codecs as archive_codecs
from ordo.archive.segments.reader import RecordingReader
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cluster.wire import codecs, consensus_codec, ordo_codecs
from ordo.cluster.wire.members import parse_members
from ordo.runtime.errors import ArchiveError, ConfigurationError, DecodeError, StorageError
from ordo.runtime.io.storage import FileStorage
from ordo.runtime.native.clock import VirtualClock
from ordo.runtime.sbe import Message, decode_one_of
from ordo.transport.uri import ChannelUri
from tests.archive.streams import BACK_PRESSURED, Sink, Stream
from tests.fuzz.driver_doors import Finding
from tests.fuzz.engine import pack, unpack

SEGMENT_LENGTH = 64 * 1024


class MessageDoor:
    """One buffer for every decoder of the wire; only DecodeError may come of it."""

    name = "messages"

    def seeds(self) -> list[bytes]:
        found = [self._valid(message) for message in self._tables()]
        return [*found, b"0,a:1,b:2,c:3,d:4,e:5|1,a:1,b:2,c:3,d:4,e:5", b"aeron:udp?endpoint=h:1|term-length=64k"]

    def _tables(self) -> Iterable[Message]:
        for module in (codecs, ordo_codecs, archive_codecs):
            yield from module.MESSAGES.values()

    def _valid(self, message: Message) -> bytes:
        return message.encode()

    def run(self, data: bytes) -> Hashable:
        found: list[Any] = []
        for decode in (codecs.decode, ordo_codecs.decode_any, consensus_codec.decode, self._decode_archive):
            try:
                decoded = decode(data)
                found.append(None if decoded is None else str(decoded)[:30])
            except DecodeError as error:
                found.append(str(error)[:20])
        text = data.decode("ascii", "replace")
        for parse in (parse_members, ChannelUri.parse):
            try:
                parse(text)
                found.append("parsed")
            except (ConfigurationError, DecodeError, ValueError) as error:
                found.append(type(error).__name__ + str(error)[:10])
            except Exception as error:
                if not isinstance(error, StorageError | ArchiveError) and type(error).__name__ != "ChannelError":
                    raise
                found.append("channel")
        return tuple(found)

    def _decode_archive(self, data: bytes) -> Any:
        return decode_one_of(archive_codecs.SCHEMAS, data)


class SegmentDoor:
    """Steps write into the segment file of a recording (kind 0), or set its length (kind 1).

    Whatever a reader hands out then was recorded, at that position, and recovery and `verify` end with one clear error
    at most.
    """

    name = "segments"

    def __init__(self) -> None:
        self._root = Path(tempfile.mkdtemp(prefix="ordo-fuzz-"))
        self._storage = FileStorage(open_lmdb)
        self._made = self._root / "made"
        archive = self._open(self._made)
        stream = Stream(position=0)
        archive.record(stream.image)
        for number in range(60):
            payload = bytes([number]) * (number * 37 % 3000)
            while stream.offer(payload) == BACK_PRESSURED:
                archive.do_work(0)
        while archive.do_work(0):
            pass
        archive.close()
        self._payloads = {m.start_position: m.payload for m in self._messages(self._made)}
        self._segment = next(self._made.glob("*.rec")).name

    def _open(self, folder: Path) -> Archive:
        return Archive(
            str(folder), storage=self._storage, clock=VirtualClock(), client=Sink(), sync="none",
            segment_length_bytes=SEGMENT_LENGTH, low_space_bytes=0,
        )  # fmt: skip

    def _messages(self, folder: Path) -> list[Any]:
        return list(RecordingReader.open(self._storage, str(folder), 0).messages())

    def seeds(self) -> list[bytes]:
        places = (0, 4, 6, 8, 32, 64, 96, 1408, 4096)
        return [pack([(0, place.to_bytes(4, "little") + b"\xff")]) for place in places] + [pack([(1, bytes(4))])]

    def run(self, data: bytes) -> Hashable:
        folder = self._root / "run"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self._made, folder)
        content = bytearray((folder / self._segment).read_bytes())
        for kind, step in unpack(data):
            value = int.from_bytes(step[:4], "little")
            if kind % 8 == 1:
                content = content[: value % (len(content) + 1)]
            elif content:
                at = value % len(content)
                content[at : at + len(step[4:])] = step[4:][: len(content) - at]
        (folder / self._segment).write_bytes(content)
        return (self._read(folder), self._verify(folder), self._recover(folder))

    def _read(self, folder: Path) -> Hashable:
        count = 0
        try:
            for message in RecordingReader.open(self._storage, str(folder), 0).messages():
                count += 1
                if self._payloads.get(message.start_position) != message.payload:
                    raise Finding(f"damage at position={message.start_position} was handed out as good")
        except (ArchiveError, StorageError) as error:
            return (count.bit_length(), type(error).__name__, str(error)[:30])
        return count.bit_length()

    def _verify(self, folder: Path) -> Hashable:
        try:
            return tuple(str(found)[:20] for found in verify(str(folder)))
        except (ArchiveError, StorageError) as error:
            return type(error).__name__

    def _recover(self, folder: Path) -> Hashable:
        try:
            self._open(folder).close()
        except (ArchiveError, StorageError) as error:
            return type(error).__name__
        return None

    def close(self) -> None:
        shutil.rmtree(self._root, ignore_errors=True)
