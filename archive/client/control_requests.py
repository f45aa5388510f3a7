"""What can be asked of an archive: one function for each request, from which both clients have their methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from ordo.archive.client.session import Reply
from ordo.archive.protocol import codecs
from ordo.archive.protocol.codes import CONTROL_STREAM_ID_DEFAULT, REPLAY_ALL_AND_FOLLOW, SourceLocation
from ordo.archive.segments.catalog import RecordingDescriptor
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.runtime.sbe import Message

if TYPE_CHECKING:
    from ordo.archive.protocol import records

ResultT = TypeVar("ResultT")
LIST_COUNT_MAX = (1 << 31) - 1


@dataclass(frozen=True)
class Call(Generic[ResultT]):
    """One request, and how its reply is read."""

    message: Message
    fields: dict[str, Any]
    convert: Callable[[Reply], ResultT]
    item_count_max: int = 0


class RecordedStream(NamedTuple):
    """A stream that is being recorded for a client."""

    subscription_id: int
    stream_id: int
    channel: str


def _id(reply: Reply) -> int:
    return reply.relevant_id


def _optional_position(reply: Reply) -> int | None:
    return None if reply.relevant_id == NULL_VALUE else reply.relevant_id


def _nothing(reply: Reply) -> None:
    return None


def _descriptors(reply: Reply) -> list[RecordingDescriptor]:
    return [descriptor_of(item) for item in reply.items]


def descriptor_of(item: records.RecordingDescriptor) -> RecordingDescriptor:
    """Return the descriptor of a recording that the archive has sent."""
    names = [name for name in RecordingDescriptor._fields if name != "state"]
    return RecordingDescriptor(**{name: getattr(item, name) for name in names})


# --- recording --------------------------------------------------------------------------------------------------------


def start_recording(channel: str, stream_id: int, *, local: bool = False, auto_stop: bool = False) -> Call[int]:
    """Start recording every publication of a stream; return the subscription id.

    `local`: the publication is at the archive's own driver. `auto_stop`: recording ends with the first publication.
    """
    fields = {"channel": channel, "stream_id": stream_id, "auto_stop": int(auto_stop)}
    return Call(codecs.START_RECORDING_REQUEST_2, fields | {"source_location": _location(local)}, _id)


def extend_recording(
    recording_id: int, channel: str, stream_id: int, *, local: bool = False, auto_stop: bool = False
) -> Call[int]:
    """Go on with a stopped recording; return the subscription id. The publication must begin at its stop."""
    fields = {"recording_id": recording_id, "channel": channel, "stream_id": stream_id, "auto_stop": int(auto_stop)}
    return Call(codecs.EXTEND_RECORDING_REQUEST_2, fields | {"source_location": _location(local)}, _id)


def _location(local: bool) -> SourceLocation:
    return SourceLocation.LOCAL if local else SourceLocation.REMOTE


def stop_recording(channel: str, stream_id: int) -> Call[None]:
    """End what `start_recording` or `extend_recording` began with this channel and stream."""
    return Call(codecs.STOP_RECORDING_REQUEST, {"channel": channel, "stream_id": stream_id}, _nothing)


def stop_recording_subscription(subscription_id: int) -> Call[None]:
    """Stop a recording as `stop_recording` does, given the id of its subscription."""
    return Call(codecs.STOP_RECORDING_SUBSCRIPTION_REQUEST, {"subscription_id": subscription_id}, _nothing)


def stop_recording_by_id(recording_id: int) -> Call[bool]:
    """Stop a recording as `stop_recording` does, by recording id; return whether it was being recorded."""
    return Call(
        codecs.STOP_RECORDING_BY_IDENTITY_REQUEST, {"recording_id": recording_id}, lambda reply: reply.relevant_id == 1
    )


# --- looking ----------------------------------------------------------------------------------------------------------


def list_recordings(
    *,
    from_recording_id: int = 0,
    count: int | None = None,
    stream_id: int | None = None,
    channel: str | None = None,
) -> Call[list[RecordingDescriptor]]:
    """Return recordings by ascending id, of one stream if that is given, whose channel contains `channel`."""
    count = LIST_COUNT_MAX if count is None else count
    fields: dict[str, Any] = {"from_recording_id": from_recording_id, "record_count": count}
    if stream_id is None:
        return Call(codecs.LIST_RECORDINGS_REQUEST, fields, _descriptors, count)
    fields |= {"channel": channel or "", "stream_id": stream_id}
    return Call(codecs.LIST_RECORDINGS_FOR_URI_REQUEST, fields, _descriptors, count)


def describe_recording(recording_id: int) -> Call[RecordingDescriptor | None]:
    """Return one recording, or None when there is none of this id."""
    return Call(
        codecs.LIST_RECORDING_REQUEST,
        {"recording_id": recording_id},
        lambda reply: descriptor_of(reply.items[0]) if reply.items else None,
        1,
    )


def find_last_recording(
    channel: str, stream_id: int, session_id: int, *, min_recording_id: int = 0
) -> Call[int | None]:
    """Return the newest recording of a session whose channel contains `channel`, or None when there is none."""
    fields = {
        "min_recording_id": min_recording_id,
        "session_id": session_id,
        "stream_id": stream_id,
        "channel": channel,
    }
    return Call(codecs.FIND_LAST_MATCHING_RECORDING_REQUEST, fields, _optional_position)


def list_recorded_streams(
    *, channel: str = "", stream_id: int | None = None, from_index: int = 0, count: int = 1000
) -> Call[list[RecordedStream]]:
    """Return the streams that are recorded for clients, whose channel contains `channel`."""
    fields = {
        "pseudo_index": from_index,
        "subscription_count": count,
        "apply_stream_id": int(stream_id is not None),
        "stream_id": stream_id or 0,
        "channel": channel,
    }

    def convert(reply: Reply) -> list[RecordedStream]:
        return [RecordedStream(item.subscription_id, item.stream_id, item.stripped_channel) for item in reply.items]

    return Call(codecs.LIST_RECORDING_SUBSCRIPTIONS_REQUEST, fields, convert, count)


def recording_position(recording_id: int) -> Call[int | None]:
    """Return how far a recording reaches, in bytes, or None when it is not being recorded."""
    return Call(codecs.RECORDING_POSITION_REQUEST, {"recording_id": recording_id}, _optional_position)


def start_position(recording_id: int) -> Call[int]:
    """Return where a recording begins, in bytes; this moves up when segments are purged."""
    return Call(codecs.START_POSITION_REQUEST, {"recording_id": recording_id}, _id)


def stop_position(recording_id: int) -> Call[int | None]:
    """Return where a recording ended, in bytes, or None while it is being recorded."""
    return Call(codecs.STOP_POSITION_REQUEST, {"recording_id": recording_id}, _optional_position)


def max_recorded_position(recording_id: int) -> Call[int]:
    """Return how far a recording reaches, whether it is live or stopped."""
    return Call(codecs.MAX_RECORDED_POSITION_REQUEST, {"recording_id": recording_id}, _id)


# --- replaying --------------------------------------------------------------------------------------------------------


def start_replay(
    recording_id: int,
    channel: str,
    stream_id: int,
    *,
    position: int | None = None,
    length: int | None = None,
    limit_counter_id: int | None = None,
    file_io_length_max: int = NULL_VALUE,
) -> Call[int]:
    """Have the archive publish a recording from `position` (default its start); return the replay session id.

    Its low 32 bits are the session id of the stream. Without `length` (bytes) it follows a live recording, and ends
    at the stop of another. `limit_counter_id` names a counter of the archive's driver that it may not pass, and
    `file_io_length_max` is how much it may read at a time.
    """
    fields = {
        "recording_id": recording_id,
        "position": NULL_VALUE if position is None else position,
        "length": REPLAY_ALL_AND_FOLLOW if length is None else length,
        "replay_stream_id": stream_id,
        "replay_channel": channel,
        "file_io_length_max": file_io_length_max,
        "replay_token": NULL_VALUE,
    }
    if limit_counter_id is None:
        return Call(codecs.REPLAY_REQUEST, fields, _id)
    return Call(codecs.BOUNDED_REPLAY_REQUEST, fields | {"limit_counter_id": limit_counter_id}, _id)


def stop_replay(replay_session_id: int) -> Call[None]:
    """End one replay, by the id that starting it gave."""
    return Call(codecs.STOP_REPLAY_REQUEST, {"replay_session_id": replay_session_id}, _nothing)


def stop_all_replays(recording_id: int | None = None) -> Call[None]:
    """End all replays of a recording, or of all."""
    fields = {"recording_id": NULL_VALUE if recording_id is None else recording_id}
    return Call(codecs.STOP_ALL_REPLAYS_REQUEST, fields, _nothing)


# --- taking apart -----------------------------------------------------------------------------------------------------


def truncate_recording(recording_id: int, position: int) -> Call[int]:
    """Delete everything of a stopped recording from `position` on; return the count of segment files deleted."""
    return Call(codecs.TRUNCATE_RECORDING_REQUEST, {"recording_id": recording_id, "position": position}, _id)


def purge_recording(recording_id: int) -> Call[int]:
    """Delete a stopped recording; return the count of segment files. Its id is not given again."""
    return Call(codecs.PURGE_RECORDING_REQUEST, {"recording_id": recording_id}, _id)


def detach_segments(recording_id: int, new_start_position: int) -> Call[None]:
    """Move the start of a recording up to the base of a segment; the files below stay."""
    fields = {"recording_id": recording_id, "new_start_position": new_start_position}
    return Call(codecs.DETACH_SEGMENTS_REQUEST, fields, _nothing)


def delete_detached_segments(recording_id: int) -> Call[int]:
    """Delete the segment files below the start of a recording; return how many."""
    return Call(codecs.DELETE_DETACHED_SEGMENTS_REQUEST, {"recording_id": recording_id}, _id)


def purge_segments(recording_id: int, new_start_position: int) -> Call[int]:
    """Detach segments and delete them; return how many.

    The same as `detach_segments` and `delete_detached_segments` together.
    """
    fields = {"recording_id": recording_id, "new_start_position": new_start_position}
    return Call(codecs.PURGE_SEGMENTS_REQUEST, fields, _id)


def attach_segments(recording_id: int) -> Call[int]:
    """Take segment files below the start of a recording back into it; return how many."""
    return Call(codecs.ATTACH_SEGMENTS_REQUEST, {"recording_id": recording_id}, _id)


def migrate_segments(source_recording_id: int, target_recording_id: int) -> Call[int]:
    """Give all segments of a stopped recording to the one that it ends or begins at; return how many."""
    fields = {"source_recording_id": source_recording_id, "target_recording_id": target_recording_id}
    return Call(codecs.MIGRATE_SEGMENTS_REQUEST, fields, _id)


def update_channel(recording_id: int, channel: str) -> Call[None]:
    """Change a recording's channel in the catalog."""
    return Call(codecs.UPDATE_CHANNEL_REQUEST, {"recording_id": recording_id, "channel": channel}, _nothing)


# --- copying from another archive -------------------------------------------------------------------------------------


def replicate(
    source_recording_id: int,
    source: str,
    *,
    target_recording_id: int | None = None,
    stop_position: int | None = None,
    source_stream_id: int = CONTROL_STREAM_ID_DEFAULT,
    replication_channel: str = "",
) -> Call[int]:
    """Have this archive copy a recording of the one at `source` (`host:port` or a channel); return at once.

    The result is the replication id, under which signals come: REPLICATE names the new recording, SYNC says that it
    is complete, REPLICATE_END ends it; errors raise from `work`. A recording that is live is followed to its stop,
    or to `stop_position`. `target_recording_id`: a stopped recording that has a part of it, default a new one.
    `replication_channel`: where the archive receives, default its own choice.
    """
    fields = {
        "source_recording_id": source_recording_id,
        "target_recording_id": NULL_VALUE if target_recording_id is None else target_recording_id,
        "stop_position": NULL_VALUE if stop_position is None else stop_position,
        "channel_tag_id": NULL_VALUE,
        "subscription_tag_id": NULL_VALUE,
        "source_control_stream_id": source_stream_id,
        "file_io_length_max": NULL_VALUE,
        "replication_session_id": NULL_VALUE,
        "source_control_channel": source if source.startswith("aeron:") else f"aeron:udp?endpoint={source}",
        "replication_channel": replication_channel,
    }
    return Call(codecs.REPLICATE_REQUEST_2, fields, _id)


def stop_replication(replication_id: int) -> Call[None]:
    """End one replication, by the id that starting it gave."""
    return Call(codecs.STOP_REPLICATION_REQUEST, {"replication_id": replication_id}, _nothing)
