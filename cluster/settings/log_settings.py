"""Level and format of a node's log, read again from its configuration when it gets SIGUSR1."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from ordo.runtime.errors import ConfigurationError
from ordo.runtime.reporting.logging import configure_logging, get_logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from ordo.cluster.settings.config import NodeSettings


def apply_log_settings(config: NodeSettings) -> None:
    """Set up the log of this process according to `[node]`."""
    configure_logging(config.node.log_level, json=config.node.logs_json)


def watch_log_settings(load: Callable[[], NodeSettings]) -> None:
    """Reload the configuration on SIGUSR1, of which only `log_level` and `log_format` take effect."""

    def read_again(_number: int, _frame: object) -> None:
        try:
            config = load()
        except ConfigurationError as error:
            get_logger().error("node.log_settings", text=f"nothing was changed: {error.message}")
            return
        configure_logging("info", json=config.node.logs_json)  # whatever the level, what it is now is written
        get_logger().info("node.log_settings", log_level=config.node.log_level, log_format=config.node.log_format)
        apply_log_settings(config)

    signal.signal(signal.SIGUSR1, read_again)
