"""The schemas that come into a log while a stream of it runs (docs/PIPELINE.md, Decoding payloads)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ordo.follow.recordings.ranges import Survey
from ordo.pipeline.decoding.log_decoder import LogDecoder
from ordo.pipeline.decoding.payloads import PayloadDecoder, decoder_fields
from ordo.pipeline.recordings.network import NetworkLog
from ordo.pipeline.recordings.recordings import Recording
from ordo.pipeline.schemas.log_schemas import between, between_of_nodes
from ordo.service_api.messages.logged import LoggedSchema

NODES = "nodes"


class NewerSchemas:
    """Looks through each stretch of a log once, before its rows are decoded, for schemas that the columns lack."""

    def __init__(self, decoder: PayloadDecoder | None, columns: Sequence[str]) -> None:
        """`columns`: those that are read; a stream that reads none of a decoder's needs no schemas."""
        is_log = isinstance(decoder, LogDecoder) and any(one.name in columns for one in decoder_fields(decoder))
        self._decoder = decoder if isinstance(decoder, LogDecoder) and is_log else None
        self._searched: dict[str, int] = {}
        """Key of a log -> the position up to which it was looked through."""

    def in_recordings(self, recordings: Iterable[Recording], ends: dict[str, int]) -> LogDecoder | None:
        """Return the decoder of rows up to these positions; None where the columns' own is as good."""
        for log in recordings:
            end = ends.get(log.key, 0)
            if self._decoder is not None and log.is_log and (after := self._after(log.key)) < end:
                bounded = replace(log, limit=end, exact=log.exact and end == log.limit)
                is_written = log.exact or end < log.limit  # it may be read further than that
                self._add(log.key, end if is_written else after, between(bounded, after, end))
        return self._changed

    def at_nodes(self, log: NetworkLog, found: Survey, upto: int) -> LogDecoder | None:
        """Do the same with a log at nodes."""
        if self._decoder is not None and (after := self._after(NODES)) < upto:
            self._add(NODES, upto, between_of_nodes(log, found, after, upto))
        return self._changed

    def _after(self, key: str) -> int:
        assert self._decoder is not None
        return self._searched.get(key, self._decoder.searched_to)

    def _add(self, key: str, upto: int, found: Iterable[LoggedSchema]) -> None:
        assert self._decoder is not None and self._decoder.logged is not None
        known = {*self._decoder.logged, *self._decoder.newest}
        if coming := set(found) - known:
            self._decoder = replace(self._decoder, newest=tuple(sorted(known | coming)))
        self._searched[key] = upto

    @property
    def _changed(self) -> LogDecoder | None:
        return self._decoder if self._decoder is not None and self._decoder.newest else None
