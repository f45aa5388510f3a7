"""Spans of traces, and their export to a collector by OTLP over HTTP. Nothing else imports OpenTelemetry.

A trace's id is made of what its parties know, and a span's of the trace's and of its own name, so that each party can
name the others' spans. `pip install ordo-sequencer[otel]` brings the packages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ordo.runtime.errors import ConfigurationError
from ordo.runtime.version import VERSION

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

REQUEST = "request"
"""The client's span, which is the parent of all others of its trace."""
TRACE_ID_BYTES = 16
SPAN_ID_BYTES = 8


def make_trace_id(identity: bytes, open_position: int, number: int) -> bytes:
    """Return the trace id of a request.

    It is made from the identity that sends it, where that was opened, and the request's number.
    """
    return blake2b(b"%b %d %d" % (identity, open_position, number), digest_size=TRACE_ID_BYTES).digest()


def make_span_id(trace_id: bytes, name: str, member_id: int | None = None) -> bytes:
    """Return the id of a span; `member_id` tells apart the members that have a span of the same name."""
    of_member = b"" if member_id is None else b" %d" % member_id
    return blake2b(trace_id + name.encode() + of_member, digest_size=SPAN_ID_BYTES).digest()


@dataclass(frozen=True)
class Span:
    """One stage of a request; wall-clock times in ns."""

    trace_id: bytes
    name: str
    start_ns: int
    end_ns: int
    attributes: Mapping[str, int | str]
    member_id: int | None = None
    """The member that made the span, where several members have one of that name."""


def check_packages(setting: str) -> None:
    """Raise ConfigurationError if the packages that `setting` needs are missing."""
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.exporter") is None:
        raise ConfigurationError(f"{setting}: needs the packages of `pip install ordo-sequencer[otel]`")


class SpanExporter:
    """An exporter to a collector: `endpoint` is the URL of its traces, `resource` says who sends them."""

    def __init__(self, endpoint: str, service_name: str, resource: Mapping[str, int | str]) -> None:
        import logging

        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource

        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # who calls `export` reports failures
        self._exporter = OTLPSpanExporter(endpoint=endpoint)
        self._resource = Resource({"service.name": service_name, "service.version": VERSION, **resource})

    def export(self, spans: Sequence[Span]) -> bool:
        """Export spans; try for up to ten seconds and return whether the collector has taken them."""
        from opentelemetry.sdk.trace.export import SpanExportResult

        made = [self._make(span) for span in spans]
        return self._exporter.export(made) is SpanExportResult.SUCCESS

    def _make(self, span: Span) -> ReadableSpan:
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope
        from opentelemetry.trace import SpanKind

        is_root = span.name == REQUEST
        return ReadableSpan(
            span.name,
            context=_context(span.trace_id, span.name, span.member_id),
            parent=None if is_root else _context(span.trace_id, REQUEST),
            resource=self._resource,
            attributes=dict(span.attributes),
            kind=SpanKind.CLIENT if is_root else SpanKind.INTERNAL,
            start_time=span.start_ns,
            end_time=span.end_ns,
            instrumentation_scope=InstrumentationScope("ordo", VERSION),
        )

    def close(self) -> None:
        self._exporter.shutdown()  # type: ignore[no-untyped-call]


def _context(trace_id: bytes, name: str, member_id: int | None = None) -> Any:
    from opentelemetry.trace import SpanContext, TraceFlags

    span_id = make_span_id(trace_id, name, member_id)
    return SpanContext(
        int.from_bytes(trace_id, "big"), int.from_bytes(span_id, "big"), name != REQUEST, TraceFlags(TraceFlags.SAMPLED)
    )
