"""The archive of one node: records images, replays recordings, keeps the catalog (archive.md part B).

    archive = Archive("/data/node0/archive", storage=storage, clock=clock, client=client, sync="commit")
    recording = archive.record(image)                  # from here on `record_work` every duty cycle
    replay = archive.replay(recording.recording_id, 0, channel="aeron:udp?endpoint=10.0.0.2:9000", stream_id=100)

Starting brings recordings that a crash left open to their true end (`recovered` says which); from then on every
recording has a stop position, or is being recorded.
"""

from libc.stdint cimport INT64_MAX, int64_t
from ordo.archive.segments.cursor cimport SegmentCursor
from ordo.archive.segments.frames cimport FAULT_NONE, check_header, frame_error
from ordo.archive.segments.record_filter cimport RecordFilter
from ordo.archive.recorder cimport Recording
from ordo.archive.segments.tail cimport RecordedTail
from ordo.archive.replay cimport Replay
from ordo.archive.segments.scan cimport fault_of_read
from ordo.runtime.agents.agent cimport Agent
from ordo.runtime.native.clock cimport Clock
from ordo.runtime.native.counters cimport Counter
from ordo.runtime.native.sentinels cimport NULL_POSITION
from ordo.runtime.io.storage cimport SegmentFile, SyncQueue
from ordo.transport.streams.image cimport Image
from ordo.transport.streams.logbuffer cimport HEADER_LENGTH
from ordo.transport.streams.publication cimport ExclusivePublication

from ordo.archive.segments.catalog import NULL_TIMESTAMP, Catalog, RecordingDescriptor, RecordingState
from ordo.archive.segments.checkpoints import CHECKPOINTS_NAME, Checkpoints
from ordo.archive.channels import replay_channel, strip_channel
from ordo.archive.replay_plan import ReplayPlan
from ordo.archive.segments.positions import (
    check_detachment,
    check_extension,
    check_replay,
    check_truncation,
    recording_counter_key,
    recording_counter_label,
)
from ordo.archive.segments.reader import RecordingReader
from ordo.archive.segments.recovery import base_of, clear_from, find_damage, recover, remove_below, remove_files
from ordo.archive.segments.segments import SEGMENT_LENGTH_DEFAULT, SEGMENT_LENGTH_MAX, SEGMENT_LENGTH_MIN, segment_name
from ordo.runtime.errors import (
    ArchiveError,
    ConfigurationError,
    CorruptFrameError,
    StorageFullError,
    UnknownRecordingError,
)

RECORDING_POSITION_TYPE_ID = 100
LOW_SPACE_BYTES_DEFAULT = 128 * 1024 * 1024
CONNECT_TIMEOUT_NS_DEFAULT = 5_000_000_000

ERROR_ACTIVE_RECORDING = 2
ERROR_MAX_REPLAYS = 7
ERROR_MAX_RECORDINGS = 8


class RecordingSubscription:
    """A subscription whose every image becomes a recording, which stops when the image closes."""

    def __init__(self, archive, channel, stream_id, on_record, on_stop):
        self.recordings = []
        self._archive = archive
        self._on_record = on_record
        self._on_stop = on_stop
        self.subscription = archive._subscribe(channel, stream_id, self._on_image)

    def _on_image(self, image):
        recording = self._archive.record(image, on_stop=self._on_end)
        self.recordings.append(recording)
        if self._on_record is not None:
            self._on_record(recording)

    def _on_end(self, recording, error):
        self.recordings.remove(recording)
        if self._on_stop is not None:
            self._on_stop(recording, error)
        elif error is not None:
            raise error

    def close(self):
        """Stop the recordings and close the subscription. Idempotent."""
        for recording in list(self.recordings):
            self._archive.stop(recording)
        self._archive._unsubscribe(self)


cdef class Archive(Agent):
    """An archive: one folder of recordings, owned by this process.

    `sync`: "commit" acknowledges what is on the device, syncs are grouped and run on the sync queue; "none" what is in
    the page cache. `segment_length_bytes`: a power of two from 64 KiB to 1 GiB. `client`: the TransportClient that
    replays publish through and counters come from; None to record images without either. `sync_queue`: the node's own
    (it knows how to wake the node), default one of the storage. `low_space_bytes`: no recording starts below it.
    `counts_padding`: a PAD counts before a frame follows it, in this folder for good; not for the log of a cluster.
    Raises StorageInUseError, ConfigurationError, StorageError.
    """

    def __init__(self, str directory not None, *, storage, Clock clock not None, client=None, sync="commit",
                 segment_length_bytes=SEGMENT_LENGTH_DEFAULT, SyncQueue sync_queue=None, archive_id=None,
                 low_space_bytes=LOW_SPACE_BYTES_DEFAULT, connect_timeout_ns=CONNECT_TIMEOUT_NS_DEFAULT, counts_padding=False):
        if sync not in ("commit", "none"):
            raise ConfigurationError(f"sync={sync!r} is not one of 'commit', 'none'")
        length = segment_length_bytes
        if not SEGMENT_LENGTH_MIN <= length <= SEGMENT_LENGTH_MAX or length & (length - 1):
            raise ConfigurationError(f"segment_length_bytes={length} is not a power of two from 64 KiB to 1 GiB")
        self.directory = directory
        self.segment_length = length
        self.sync = sync
        self.storage = storage
        self._client = client
        self._clock = clock
        self._low_space_bytes = low_space_bytes
        self._connect_timeout_ns = connect_timeout_ns
        self._next_replay_id = 1
        self._recordings, self._replays, self._subscriptions = [], [], []
        self._tails = {}
        storage.make_directory(directory)
        self._lock = storage.lock_directory(directory)
        try:
            self.catalog = Catalog.open(storage, directory)
            if counts_padding:
                self.catalog.count_padding()
            self.recovered = recover(storage, directory, self.catalog, self._now_ms(), is_durable=sync == "commit")
        except BaseException:
            self._lock.close()
            raise
        if sync == "commit":
            self._owns_queue = sync_queue is None
            self._queue = storage.sync_queue() if self._owns_queue else sync_queue
            self._checkpoints = Checkpoints(storage, directory, self._queue)
        else:
            storage.remove(f"{directory}/{CHECKPOINTS_NAME}")
        self.archive_id = archive_id if archive_id is not None else client.next_correlation_id() if client else 0

    @property
    def role_name(self):
        return "archive"

    def _now_ms(self):
        return self._clock.epoch_time_ns() // 1_000_000

    # The duty cycle.

    cdef int record_work(self, int64_t now_ns) noexcept nogil:
        """Record what images have; return how many blocks were recorded."""
        cdef int work = 0
        cdef int i
        for i in range(self._recording_count):
            work += (<Recording> self._recording_table[i]).work()
        return work

    cdef int replay_work(self, int64_t now_ns) noexcept nogil:
        """Publish what replays may publish now; return how many blocks were published."""
        cdef int work = 0
        cdef int i
        for i in range(self._replay_count):
            work += (<Replay> self._replay_table[i]).work(now_ns)
        return work

    cdef bint needs_attention(self) noexcept nogil:
        cdef int i
        for i in range(self._recording_count):
            if (<Recording> self._recording_table[i]).needs_attention:
                return True
        for i in range(self._replay_count):
            if (<Replay> self._replay_table[i]).needs_attention:
                return True
        return False

    cpdef int do_work(self, int64_t now_ns) except -1:
        """Record, replay, and close what ended. Raises the error of a recording or replay that has no listener."""
        cdef int work
        cdef int recorded, replayed
        cdef int64_t begun_ns, recorded_ns, replayed_ns
        with nogil:
            begun_ns = self._clock.nano_time()
            recorded = self.record_work(now_ns)
            recorded_ns = self._clock.nano_time()
            replayed = self.replay_work(now_ns)
            replayed_ns = self._clock.nano_time()
        work = recorded + replayed
        if recorded:
            self.record_time_ns += recorded_ns - begun_ns
            self.record_time_max_ns = max(self.record_time_max_ns, recorded_ns - begun_ns)
        if replayed:
            self.replay_time_ns += replayed_ns - recorded_ns
            self.replay_time_max_ns = max(self.replay_time_max_ns, replayed_ns - recorded_ns)
        if self._checkpoints is not None and self._recording_count:
            self._checkpoints.note(self._recordings, now_ns)
        if self.needs_attention():
            work += self._close_ended()
        return work

    cdef void _index(self):
        cdef int i
        self._recording_count = len(self._recordings)
        self._replay_count = len(self._replays)
        for i in range(self._recording_count):
            self._recording_table[i] = <void*> self._recordings[i]
        for i in range(self._replay_count):
            self._replay_table[i] = <void*> self._replays[i]

    def _close_ended(self):
        """Close every recording and replay that asks for it; return how many. Raises the first error that has no
        listener."""
        ended = [session for session in [*self._recordings, *self._replays] if session.needs_attention]
        failure = None
        for session in ended:
            try:
                self.stop(session) if isinstance(session, Recording) else self.stop_replay(session)
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return len(ended)

    # Recording.

    def record(self, Image image not None, *, recording_id=None, channel=None, on_stop=None):
        """Record an image from its position on: as a new recording, or as more of one that is stopped.

        `channel`: what the catalog says of a new one, default the subscription's.
        To extend, the image must be at the stop position and have the recording's initial term id, term length, MTU
        and stream id. `on_stop(recording, error or None)` is called once. Raises ArchiveError, StorageError.
        """
        if self._recording_count == SESSIONS_MAX:
            raise ArchiveError(f"{SESSIONS_MAX} recordings are active already; stop one", code=ERROR_MAX_RECORDINGS)
        self.check_space()
        if recording_id is None:
            descriptor = self.catalog.add(self._describe(image, channel or image.subscription.channel))
        else:
            descriptor = self._extend(recording_id, image)
        try:
            recording = self._open(descriptor, image, recording_id is None, on_stop)
        except BaseException:
            self.catalog.update(descriptor.recording_id, stop_position=image.position, stop_timestamp=self._now_ms())
            raise
        self._recordings.append(recording)
        self._index()
        if self.observer is not None:
            self.observer.on_start(recording)
        return recording

    def check_space(self):
        """Raise StorageFullError when there is too little room to begin a recording."""
        usable = self.storage.usable_bytes(self.directory)
        if usable <= self._low_space_bytes:
            raise StorageFullError(f"cannot record: path={self.directory} has usable={usable} bytes, needs more than "
                                   f"{self._low_space_bytes}; free some space")

    def _describe(self, Image image, channel):
        """Return the descriptor of a new recording; the catalog assigns the id."""
        return RecordingDescriptor(
            recording_id=-1, start_position=image.position, stop_position=NULL_POSITION,
            start_timestamp=self._now_ms(), stop_timestamp=NULL_TIMESTAMP, initial_term_id=image.log.initial_term_id,
            segment_length=max(self.segment_length, image.log.term_length), term_length=image.log.term_length,
            mtu=image.log.mtu, session_id=image.session_id, stream_id=image.stream_id,
            stripped_channel=strip_channel(channel), original_channel=channel, source_identity=image.source_identity)

    def _extend(self, recording_id, Image image):
        descriptor = self._stopped(recording_id)
        check_extension(descriptor, position=image.position, initial_term_id=image.log.initial_term_id,
                        term_length=image.log.term_length, mtu=image.log.mtu, stream_id=image.stream_id)
        if descriptor.state is RecordingState.INVALID:
            position = descriptor.stop_position
            raise CorruptFrameError(
                f"recording {recording_id} is damaged at position={position}, which had been acknowledged; truncate it "
                "there to accept the loss, or restore the segment", recording_id=recording_id, position=position)
        clear_from(self.storage, self.directory, descriptor, descriptor.stop_position,
                   is_durable=self.sync == "commit")
        return self.catalog.update(recording_id, session_id=image.session_id, stop_position=NULL_POSITION,
                                   stop_timestamp=NULL_TIMESTAMP)

    def _open(self, descriptor, Image image, is_new, on_stop):
        position = image.position
        path = f"{self.directory}/{segment_name(descriptor.recording_id, base_of(descriptor, position))}"
        file = self.storage.open_segment(path, descriptor.segment_length,
                                          create=is_new or not self.storage.exists(path))
        folder = self.storage.open_segment(self.directory, 0, writable=False)
        counter = self._add_counter(descriptor._replace(source_identity=image.source_identity))
        recording = Recording(self.storage, self.directory, descriptor, position, image, file, folder, self._queue,
                              counter, on_stop, counts_padding=self.catalog.counts_padding)
        if descriptor.recording_id in self._tails:
            recording.share(self._tails[descriptor.recording_id])
        return recording

    def _add_counter(self, descriptor):
        if self._client is None:
            return None
        return self._client.add_counter(
            RECORDING_POSITION_TYPE_ID, recording_counter_label(descriptor, self.archive_id),
            recording_counter_key(descriptor, self.archive_id))

    def stop(self, Recording recording not None):
        """End a recording: what was written becomes durable, the catalog gets the stop position. Blocks for the sync.

        Calls `on_stop`; without one, raises the error that ended the recording, if there was one.
        """
        if recording not in self._recordings:
            return
        self._recordings.remove(recording)
        self._index()
        self._bytes_recorded += recording.written_position - recording.start_position
        stop_position = recording.settle()
        failure = recording.error
        try:
            self.catalog.update(recording.recording_id, stop_position=stop_position, stop_timestamp=self._now_ms())
        except Exception as error:
            failure = failure or error
        if recording.counter is not None:
            recording.counter.close()
        if self.observer is not None:
            self.observer.on_stop(recording)
        if recording.on_stop is not None:
            recording.on_stop(recording, failure)
        elif failure is not None:
            raise failure

    @property
    def active_recordings(self):
        """The recordings that are active."""
        return list(self._recordings)

    @property
    def recorded_bytes(self):
        """How many bytes have been written since the start."""
        return self._bytes_recorded + sum(one.written_position - one.start_position for one in self._recordings)

    @property
    def replayed_bytes(self):
        """How many bytes replays have published since the start."""
        return self._bytes_replayed + sum(one.position - one.start_position for one in self._replays)

    def recording(self, recording_id):
        """Return the active Recording of an id, or None when it is not being recorded."""
        return next((active for active in self._recordings if active.recording_id == recording_id), None)

    def record_subscription(self, channel, stream_id, *, on_record=None, on_stop=None):
        """Record every image of a subscription as a new recording; return the RecordingSubscription.

        `on_record(recording)` when one starts, `on_stop(recording, error or None)` when it ended.
        """
        subscription = RecordingSubscription(self, channel, stream_id, on_record, on_stop)
        self._subscriptions.append(subscription)
        return subscription

    def _subscribe(self, channel, stream_id, on_image):
        return self._client.add_subscription(channel, stream_id, on_available_image=on_image)

    def _unsubscribe(self, recording_subscription):
        if recording_subscription in self._subscriptions:
            self._subscriptions.remove(recording_subscription)
            recording_subscription.subscription.close()

    # Replaying.

    def replay(self, recording_id, position=None, length=None, *, channel, stream_id, session_id=None,
               Counter limit=None, on_end=None):
        """Publish a recording from `position` (default its start); return the Replay.

        With `length` (bytes) it ends after it. Without, at the stop position; for a live recording it follows. An empty
        recording that is stopped can be replayed from its start, which ends at once; not from a position. Nothing
        at or above the value of `limit` (a Counter) is published. A subscriber that goes away ends it.
        `on_end(replay, error or None)` is called once. Raises UnknownRecordingError, ArchiveError.
        """
        plan = self.plan_replay(recording_id, position, length, channel=channel, session_id=session_id)
        publication = self._client.add_exclusive_publication(plan.channel, stream_id)
        return self.begin_replay(plan, publication, limit=limit, on_end=on_end)

    def plan_replay(self, recording_id, position=None, length=None, *, channel, session_id=None):
        """Check what `replay` is asked for, without changing anything; return a ReplayPlan. Raises as `replay`."""
        if self._replay_count == SESSIONS_MAX:
            raise ArchiveError(f"{SESSIONS_MAX} replays are active already; stop one", code=ERROR_MAX_REPLAYS)
        descriptor = self.descriptor(recording_id)
        live = self.recording(recording_id)
        stop = live.written_position if live is not None else descriptor.stop_position
        start = descriptor.start_position if position is None else position
        check_replay(descriptor, start, length, stop, is_live=live is not None,
                     may_be_empty=position is None and start == stop)
        if start < stop:
            self._check_boundary(SegmentCursor(self.storage, self.directory, descriptor), start)
        return ReplayPlan(recording_id, start, length, replay_channel(
            channel, position=start, initial_term_id=descriptor.initial_term_id, term_length=descriptor.term_length,
            mtu=descriptor.mtu, session_id=session_id))

    def begin_replay(self, plan, ExclusivePublication publication not None, *, Counter limit=None,
                     block_length_bytes=None, revokes=False, on_end=None, RecordFilter record_filter=None):
        """Replay a plan into a publication of its channel; return the Replay. Checks the recording again, for it may
        have changed since; the publication is closed when that fails.

        `block_length_bytes`: at most so much is read at a time. `revokes`: a replay that ends before its time revokes
        its publication, so that subscribers can tell. `record_filter`: the messages to send; the others become padding.
        The rest is as for `replay`.
        """
        try:
            is_from_start = plan.position == self.descriptor(plan.recording_id).start_position
            self.plan_replay(plan.recording_id, None if is_from_start else plan.position, plan.length_bytes,
                             channel=plan.channel)
        except BaseException:
            publication.close()
            raise
        descriptor = self.descriptor(plan.recording_id)
        live = self.recording(plan.recording_id)
        stop = live.written_position if live is not None else descriptor.stop_position
        end = INT64_MAX if plan.length_bytes is None else min(plan.position + plan.length_bytes, INT64_MAX)
        replay = Replay(self._next_replay_id, SegmentCursor(self.storage, self.directory, descriptor), publication,
                        plan.position, end, stop, live, limit, self._connect_timeout_ns, on_end)
        replay.revokes = revokes
        replay.filter = record_filter
        if block_length_bytes is not None:
            replay.limit_block(block_length_bytes)
        self._next_replay_id += 1
        self._replays.append(replay)
        self._index()
        return replay

    def _check_boundary(self, SegmentCursor cursor, int64_t position):
        """Raise ArchiveError unless a frame begins at a position that has been recorded; CorruptFrameError where its
        segment file is missing, StorageError where that cannot be read."""
        cdef unsigned char[32] header
        cdef int64_t length = cursor.read(header, HEADER_LENGTH, position)
        if length < 0:
            raise frame_error(fault_of_read(length), cursor.recording_id, cursor.path_of(position), position, NULL,
                              &cursor.layout)
        if length != HEADER_LENGTH or check_header(header, position, &cursor.layout) != FAULT_NONE:
            raise ArchiveError(f"no frame of recording {cursor.recording_id} begins at position={position} in "
                               f"{cursor.path_of(position)}; choose the position after a message", code=16)

    def stop_replay(self, Replay replay not None):
        """End a replay and close its publication. Calls `on_end`; without one, raises the replay's error."""
        if replay not in self._replays:
            return
        self._replays.remove(replay)
        self._index()
        self._bytes_replayed += replay.position - replay.start_position
        replay.settle()
        if replay.on_end is not None:
            replay.on_end(replay, replay.error)
        elif replay.error is not None:
            raise replay.error

    def replays(self, recording_id=None):
        """Return the active replays, of one recording or all."""
        return [replay for replay in self._replays if recording_id in (None, replay.recording_id)]

    def reader(self, recording_id, position=None):
        """Return a RecordingReader on a recording of this archive, live or stopped."""
        return RecordingReader(self.storage, self.directory, self.descriptor(recording_id), position)

    def follower(self, recording_id, position=None):
        """Return a reader as `reader` does, for reading on the archive's thread what it records: the newest bytes come
        from memory, not from the files again. What it hands out is valid until the archive works. Takes 1 MiB while it
        is recorded."""
        reader = self.reader(recording_id, position)
        if recording_id not in self._tails:
            self._tails[recording_id] = RecordedTail()
            live = self.recording(recording_id)
            if live is not None:
                live.share(self._tails[recording_id])
        reader.follow(self._tails[recording_id])
        return reader

    # The catalog.

    def descriptor(self, recording_id):
        """Return the RecordingDescriptor of an id. Raises UnknownRecordingError."""
        descriptor = self.catalog.get(recording_id)
        if descriptor.state is RecordingState.DELETED:
            raise UnknownRecordingError(f"recording {recording_id} is purged", code=5)
        return descriptor

    def recordings(self):
        """Return the descriptors of all recordings, by ascending id."""
        return [descriptor for descriptor in self.catalog if descriptor.state is not RecordingState.DELETED]

    def _stopped(self, recording_id):
        descriptor = self.descriptor(recording_id)
        if self.recording(recording_id) is not None:
            raise ArchiveError(f"recording {recording_id} is being recorded; stop it first",
                               code=ERROR_ACTIVE_RECORDING)
        return descriptor

    def truncate(self, recording_id, position):
        """Take everything at and after `position` (bytes) from a stopped recording; durable when it returns.

        The position is one where a frame begins, or the stop position. Replays of the recording end. Returns the count
        of segment files removed. Raises UnknownRecordingError, ArchiveError, StorageError.
        """
        descriptor = self._stopped(recording_id)
        check_truncation(self.storage, self.directory, descriptor, position)
        for replay in self.replays(recording_id):
            self.stop_replay(replay)
        if self._checkpoints is not None:
            self._checkpoints.forget(recording_id)
        self.catalog.update(recording_id, stop_position=position, state=RecordingState.VALID)
        if position == descriptor.start_position:
            return remove_files(self.storage, self.directory, recording_id)
        return clear_from(self.storage, self.directory, descriptor, position, is_durable=self.sync == "commit")

    def find_damage(self, recording_id, from_position=None):
        """Return the first Damage of a stopped recording, or None when it is whole: every message from `from_position`
        (default the start; a message begins there) on is checked, what is before only for segment files that are
        missing."""
        descriptor = self._stopped(recording_id)
        start = descriptor.start_position if from_position is None else from_position
        return find_damage(self.storage, self.directory, descriptor, start)

    def condemn(self, recording_id, position):
        """Mark what a stopped recording has from `position` on as damaged: it is INVALID and ends there, until it is
        truncated. Nothing is deleted. Durable when it returns."""
        self._stopped(recording_id)
        self.catalog.update(recording_id, stop_position=position, state=RecordingState.INVALID)

    def detach_segments(self, recording_id, new_start_position):
        """Move the start of a recording, live or stopped, to the base of a segment above its first one, and at most
        that of its last (`segment_base(recording_id, position)` gives one). The files below stay.

        No replay may be below it. Raises UnknownRecordingError, ArchiveError.
        """
        descriptor = self.descriptor(recording_id)
        live = self.recording(recording_id)
        stop = live.written_position if live is not None else descriptor.stop_position
        check_detachment(descriptor, new_start_position, stop)
        if any(replay.position < new_start_position for replay in self.replays(recording_id)):
            raise ArchiveError(f"recording {recording_id} is being replayed below position={new_start_position}; stop "
                               "that first", code=ERROR_ACTIVE_RECORDING)
        self.catalog.update(recording_id, start_position=new_start_position)

    def delete_detached_segments(self, recording_id):
        """Delete the segment files below the start of a recording; return how many. Raises UnknownRecordingError."""
        descriptor = self.descriptor(recording_id)
        return remove_below(self.storage, self.directory, recording_id,
                            base_of(descriptor, descriptor.start_position))

    def purge_segments(self, recording_id, new_start_position):
        """Detach segments and delete them, as `detach_segments` and then `delete_detached_segments` do. Returns the
        number of files."""
        self.detach_segments(recording_id, new_start_position)
        return self.delete_detached_segments(recording_id)

    def segment_base(self, recording_id, position):
        """Return the base position of the segment file that holds a position of a recording."""
        return base_of(self.descriptor(recording_id), position)

    def purge(self, recording_id):
        """Delete a stopped recording that is not being replayed; return the count of files. Its id is not given
        again."""
        self._stopped(recording_id)
        if self.replays(recording_id):
            raise ArchiveError(f"cannot purge recording with active replay {recording_id}",
                               code=ERROR_ACTIVE_RECORDING)
        self.catalog.update(recording_id, state=RecordingState.DELETED)
        self._tails.pop(recording_id, None)
        count = remove_files(self.storage, self.directory, recording_id)
        self.catalog.remove(recording_id)
        return count

    def close(self):
        """Stop everything in order and give the folder back. Idempotent."""
        if self.is_closed:
            return
        self.is_closed = True
        failure = None
        for session in [*self._replays, *self._recordings]:
            try:
                self.stop_replay(session) if isinstance(session, Replay) else self.stop(session)
            except Exception as error:
                failure = failure or error
        for subscription in list(self._subscriptions):
            subscription.close()
        if self._checkpoints is not None:
            self._checkpoints.close()
        if self._owns_queue:
            self._queue.close()
        self.catalog.close()
        self._lock.close()
        if failure is not None:
            raise failure

    def on_close(self):
        self.close()
