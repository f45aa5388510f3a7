"""Logs: events with key=value context, coloured on a terminal, one JSON object a line otherwise.

structlog is imported by programs that set logs up, not by those that only may have something to tell: it brings 12 MiB.
"""

import logging
import sys
from contextlib import suppress
from typing import Any, TextIO

from runtime.errors import ConfigurationError

LEVELS = ("debug", "info", "warning", "error")
_demanded = {"json": False}


def demands_json() -> bool:
    """Whether this process was told to write JSON, and nothing else, wherever its log goes."""
    return _demanded["json"]


def configure_logging(level: str = "info", *, json: bool | None = None, stream: TextIO | None = None) -> None:
    """Sets the logs of this process up. `json` None: JSON unless `stream` (standard error) is a terminal.

    Raises ConfigurationError for a level that is not one of LEVELS.
    """
    if level not in LEVELS:
        raise ConfigurationError(f"log level: {level!r}, allowed {', '.join(LEVELS)}")
    import structlog

    _demanded["json"] = json is True
    stream = stream or sys.stderr
    as_json = not stream.isatty() if json is None else json
    processors: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if as_json:
        processors += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    else:
        processors.append(structlog.dev.ConsoleRenderer(colors=stream.isatty()))
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )


def get_logger(**context: Any) -> Any:
    """Returns a logger that adds `context` to every event."""
    import structlog

    return structlog.get_logger(**context)


def tell(level: str, event: str, **context: Any) -> None:
    """One event from a library: into the logs of a process that has set them up, else to the standard library's.

    A log that is closed or cannot be written is no reason to stop what one is doing.
    """
    structlog = sys.modules.get("structlog")
    with suppress(OSError, ValueError):
        if structlog is not None and structlog.is_configured():
            getattr(structlog.get_logger(), level)(event, **context)
        else:
            words = " ".join(f"{name}={value}" for name, value in context.items())
            logging.getLogger("ordo").log(getattr(logging, level.upper()), "%s %s", event, words)
