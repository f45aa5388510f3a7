"""Level and format of a node's log, read again from its configuration when it gets SIGUSR1."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from ordo.runtime.errors import ConfigurationError
from ordo.runtime.reporting.logging import configure_logging, get_logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from ordo.cluster.settings.config import NodeConfig


def apply_log_settings(config: NodeConfig) -> None:
    """Set the log of this process up as `[node]` says."""
    configure_logging(config.node.log_level, json=config.node.logs_json)


def watch_log_settings(load: Callable[[], NodeConfig]) -> None:
    """From now on SIGUSR1 has the configuration loaded again, of which `log_level` and `log_format` count alone."""

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
