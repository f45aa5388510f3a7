"""How much one micro-batch of a stream takes, by the options of the read."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows

from ordo.pipeline.recordings.index import index_of, scan_range
from ordo.pipeline.recordings.options import ReadSettings
from ordo.pipeline.recordings.recordings import Recording


def default_read_limit(options: ReadSettings) -> ReadLimit:
    """`maxBytesPerTrigger` or `maxRecordsPerTrigger`; without them everything there is."""
    if options.bytes_per_trigger_max is not None:
        return ReadMaxBytes(options.bytes_per_trigger_max)
    if options.records_per_trigger_max is not None:
        return ReadMaxRows(options.records_per_trigger_max)
    return ReadAllAvailable()


def bounded_bytes(begin: dict[str, int], wanted: dict[str, int], bytes_max: int) -> dict[str, int]:
    """Return ends that share `bytes_max` among the recordings that have something new, lowest share first."""
    left, ends = bytes_max, dict(begin)
    pending = sorted((key for key in wanted if wanted[key] > begin[key]), key=lambda key: wanted[key] - begin[key])
    for index, key in enumerate(pending):
        share = min(wanted[key] - begin[key], max(32, left // (len(pending) - index)))
        ends[key] = begin[key] + share
        left -= share
    return ends


def bounded_rows(
    recordings: list[Recording], begin: dict[str, int], wanted: dict[str, int], rows_max: int
) -> dict[str, int]:
    """Return ends that share `rows_max` messages among the recordings that have something new."""
    left, ends = rows_max, dict(begin)
    pending = [recording for recording in recordings if wanted[recording.key] > begin[recording.key]]
    for index, recording in enumerate(pending):
        share = max(1, left // (len(pending) - index))
        key = recording.key
        ends[key], taken = _position_after(recording, begin[key], wanted[key], share)
        left -= taken
    return ends


def _position_after(recording: Recording, start: int, end: int, rows_max: int) -> tuple[int, int]:
    """Position after at most `rows_max` messages that end in (start, end], and how many there are."""
    bounded = replace(recording, limit=end, exact=recording.exact and end == recording.limit)
    taken = 0
    segments = list(bounded.segments(start))
    for segment, index in zip(segments, index_of(bounded, segments), strict=True):
        for block in index.blocks:
            if block["end"] <= start:
                continue
            whole = block["start"] >= start
            if whole and taken + block["messages"] <= rows_max and block["messages"]:
                taken += int(block["messages"])
                continue
            found = scan_range(bounded, segment, int(block["start"]), min(int(block["end"]), segment.end), 32)
            for message in found.blocks:
                if message["end"] <= start:
                    continue
                if taken == rows_max:
                    return int(message["start"]), taken
                taken += int(message["messages"])
    return end, taken
