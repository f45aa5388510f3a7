from collections.abc import Callable
from typing import Any

from ordo.archive.recorder import Recording
from ordo.archive.replay import Replay
from ordo.archive.replay_plan import ReplayPlan
from ordo.archive.segments.catalog import Catalog, RecordingDescriptor
from ordo.archive.segments.reader import RecordingReader
from ordo.archive.segments.record_filter import RecordFilter
from ordo.archive.segments.recovery import Damage, RecoveredRecording
from ordo.runtime.agents.agent import Agent
from ordo.runtime.io.storage import Storage, SyncQueue
from ordo.runtime.native.clock import Clock
from ordo.runtime.native.counters import Counter
from ordo.transport.streams.image import Image
from ordo.transport.streams.publication import ExclusivePublication

RECORDING_POSITION_TYPE_ID: int
LOW_SPACE_BYTES_DEFAULT: int
CONNECT_TIMEOUT_NS_DEFAULT: int
ERROR_ACTIVE_RECORDING: int
ERROR_MAX_REPLAYS: int
ERROR_MAX_RECORDINGS: int

class RecordingSubscription:
    recordings: list[Recording]
    subscription: Any
    def __init__(
        self,
        archive: Archive,
        channel: str,
        stream_id: int,
        on_record: Callable[[Recording], object] | None,
        on_stop: Callable[[Recording, Exception | None], object] | None,
    ) -> None: ...
    def close(self) -> None: ...

class Archive(Agent):
    observer: Any
    @property
    def record_time_ns(self) -> int: ...
    @property
    def record_time_max_ns(self) -> int: ...
    @property
    def replay_time_ns(self) -> int: ...
    @property
    def replay_time_max_ns(self) -> int: ...
    @property
    def active_recordings(self) -> list[Recording]: ...
    @property
    def recorded_bytes(self) -> int: ...
    @property
    def replayed_bytes(self) -> int: ...
    @property
    def directory(self) -> str: ...
    @property
    def storage(self) -> Storage: ...
    @property
    def catalog(self) -> Catalog: ...
    @property
    def recovered(self) -> list[RecoveredRecording]: ...
    @property
    def is_closed(self) -> bool: ...
    @property
    def archive_id(self) -> int: ...
    @property
    def segment_length(self) -> int: ...
    @property
    def sync(self) -> str: ...
    def __init__(
        self,
        directory: str,
        *,
        storage: Storage,
        clock: Clock,
        client: object = None,
        sync: str = "commit",
        segment_length_bytes: int = ...,
        sync_queue: SyncQueue | None = None,
        archive_id: int | None = None,
        low_space_bytes: int = ...,
        counts_padding: bool = ...,
        connect_timeout_ns: int = ...,
    ) -> None: ...
    def do_work(self, now_ns: int) -> int: ...
    def record(
        self,
        image: Image,
        *,
        recording_id: int | None = None,
        channel: str | None = None,
        on_stop: Callable[[Recording, Exception | None], object] | None = None,
    ) -> Recording: ...
    def stop(self, recording: Recording) -> None: ...
    def recording(self, recording_id: int) -> Recording | None: ...
    def record_subscription(
        self,
        channel: str,
        stream_id: int,
        *,
        on_record: Callable[[Recording], object] | None = None,
        on_stop: Callable[[Recording, Exception | None], object] | None = None,
    ) -> RecordingSubscription: ...
    def replay(
        self,
        recording_id: int,
        position: int | None = None,
        length: int | None = None,
        *,
        channel: str,
        stream_id: int,
        session_id: int | None = None,
        limit: Counter | None = None,
        on_end: Callable[[Replay, Exception | None], object] | None = None,
    ) -> Replay: ...
    def plan_replay(
        self,
        recording_id: int,
        position: int | None = None,
        length: int | None = None,
        *,
        channel: str,
        session_id: int | None = None,
    ) -> ReplayPlan: ...
    def begin_replay(
        self,
        plan: ReplayPlan,
        publication: ExclusivePublication,
        *,
        limit: Counter | None = None,
        block_length_bytes: int | None = None,
        revokes: bool = False,
        on_end: Callable[[Replay, Exception | None], object] | None = None,
        record_filter: RecordFilter | None = None,
    ) -> Replay: ...
    def stop_replay(self, replay: Replay) -> None: ...
    def replays(self, recording_id: int | None = None) -> list[Replay]: ...
    def reader(self, recording_id: int, position: int | None = None) -> RecordingReader: ...
    def follower(self, recording_id: int, position: int | None = None) -> RecordingReader: ...
    def descriptor(self, recording_id: int) -> RecordingDescriptor: ...
    def recordings(self) -> list[RecordingDescriptor]: ...
    def truncate(self, recording_id: int, position: int) -> int: ...
    def find_damage(self, recording_id: int, from_position: int | None = None) -> Damage | None: ...
    def condemn(self, recording_id: int, position: int) -> None: ...
    def check_space(self) -> None: ...
    def detach_segments(self, recording_id: int, new_start_position: int) -> None: ...
    def delete_detached_segments(self, recording_id: int) -> int: ...
    def purge_segments(self, recording_id: int, new_start_position: int) -> int: ...
    def segment_base(self, recording_id: int, position: int) -> int: ...
    def purge(self, recording_id: int) -> int: ...
    def close(self) -> None: ...
