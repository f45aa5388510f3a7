"""Logs: events with key=value context, coloured on a terminal, one JSON object a line otherwise.

structlog is imported when the first event is logged, by this process or by a service in it, and is set up with its
import. With what it brings along it takes megabytes, which a service container that has nothing to tell does without.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any, TextIO

from ordo.runtime.errors import ConfigurationError
from ordo.runtime.reporting.log_sink import LogSink, SinkStream, drop_what_cannot_be_written
from ordo.runtime.reporting.output import LINES, printable

LEVELS = ("debug", "info", "warning", "error")
LIBRARY = "structlog"
TERMINAL_LIBRARY = "rich"


@dataclass(frozen=True)
class _Settings:
    """The way the logs of this process are written."""

    level: str
    sink: LogSink
    is_terminal: bool
    as_json: bool
    is_json_demanded: bool

    def apply(self) -> None:
        import logging

        import structlog

        self.sink.notice = self._notice
        structlog.configure(
            processors=self._processors(),
            wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, self.level.upper())),
            logger_factory=lambda *_: _LineLogger(self.sink),
            cache_logger_on_first_use=False,
        )

    def _processors(self) -> list[Any]:
        import structlog

        processors: list[Any] = [
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
        ]
        if self.as_json:
            return [*processors, structlog.processors.JSONRenderer()]
        plain = structlog.dev.plain_traceback  # it is escaped like all else, where rich's own would not be
        renderer = structlog.dev.ConsoleRenderer(colors=self.is_terminal, exception_formatter=plain)
        return [*processors, _escape, renderer]

    def _notice(self, count: int, trouble: str) -> str:
        """Return the line that comes before the first one that can be written again, in the log's own format."""
        line: Any = {"event": "log.lines_dropped", "count": count, "trouble": trouble}
        for process in self._processors():
            line = process(None, "warning", line)
        return f"{line}\n"


class _LineLogger:
    """The logger that structlog passes a line to."""

    def __init__(self, sink: LogSink) -> None:
        self._sink = sink

    def msg(self, line: str) -> None:
        self._sink.write(f"{line}\n")

    debug = info = warning = error = critical = exception = log = msg


def _escape(_logger: Any, _method: str, event: Any) -> Any:
    """Escape texts for people: names and errors from outside are shown, not obeyed. JSON escapes by itself."""
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = printable(value, LINES if name in ("exception", "stack") else "")
    return event


_chosen: dict[str, _Settings] = {}
"""Empty, or one entry: for LIBRARY."""


class _SetUpOnImport:
    """An import hook that sets structlog up when it is first imported, and then removes itself."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != LIBRARY:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_set_up(module: ModuleType) -> None:
                with _hidden(TERMINAL_LIBRARY if _chosen[LIBRARY].as_json else None):
                    load(module)
                _chosen[LIBRARY].apply()

            spec.loader.exec_module = load_and_set_up  # type: ignore[method-assign]
        return spec


@contextmanager
def _hidden(name: str | None) -> Iterator[None]:
    """Hide an installed library from imports, since structlog would load it for the colours of terminals."""
    if name is None or name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]


def demands_json() -> bool:
    """Return whether this process was told to write JSON, and nothing else, wherever its log goes."""
    return LIBRARY in _chosen and _chosen[LIBRARY].is_json_demanded


def configure_logging(level: str = "info", *, json: bool | None = None, stream: TextIO | None = None) -> None:
    """Set up the logs of this process. `json` None: JSON unless `stream` (standard error) is a terminal.

    Lines that cannot be written are dropped and counted (`runtime.reporting.log_sink`). Raises ConfigurationError for
    a level that is not one of LEVELS.
    """
    if level not in LEVELS:
        raise ConfigurationError(f"log level: {level!r}, allowed {', '.join(LEVELS)}")
    stream = stream or sys.stderr
    sink = stream.sink if isinstance(stream, SinkStream) else LogSink(stream)
    is_terminal = stream is not None and stream.isatty()
    _chosen[LIBRARY] = _Settings(level, sink, is_terminal, not is_terminal if json is None else json, json is True)
    if LIBRARY in sys.modules:
        _chosen[LIBRARY].apply()
    elif not any(isinstance(finder, _SetUpOnImport) for finder in sys.meta_path):
        sys.meta_path.insert(0, _SetUpOnImport())


def configure_program(level: str = "info", *, json: bool | None = None) -> None:
    """Set up the logs of a long-running program: a failed write of its output never ends it."""
    drop_what_cannot_be_written()
    configure_logging(level, json=json)


def get_logger(**context: Any) -> Any:
    """Return a logger that adds `context` to every event."""
    import structlog

    return structlog.get_logger(**context)


def tell(level: str, event: str, **context: Any) -> None:
    """Log one event from a library: to this process's logs if they are set up, otherwise to the standard library's.

    A log that is closed or cannot be written is no reason to stop what one is doing.
    """
    with suppress(OSError, ValueError):
        if _is_set_up():
            getattr(get_logger(), level)(event, **context)
        else:
            import logging

            words = " ".join(f"{name}={value}" for name, value in context.items())
            logging.getLogger("ordo").log(getattr(logging, level.upper()), "%s %s", event, words)


def _is_set_up() -> bool:
    """Return whether structlog is set up, by `configure_logging` or by the program itself."""
    structlog = sys.modules.get(LIBRARY)
    return LIBRARY in _chosen if structlog is None else structlog.is_configured()
