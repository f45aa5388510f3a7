"""`ordo cluster renew-log`, killed at each of its calls that change a file, with `tests/faults/kill_at.c` preloaded.

python -m tests.cluster.integration.killed_renewals NODE.TOML

Each attempt is on a copy of the member's data folder, `<data_dir>-1` and so on; the last one is not killed. Prints how
many there are.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import sys
from itertools import count
from pathlib import Path

from ordo.cluster.admin.log_renewal import renew_log
from ordo.cluster.settings.config import NodeSettings, load_config


def copy_config(config: NodeSettings, number: int) -> NodeSettings:
    """The same member with the folder of an attempt."""
    folder = config.node.data_dir
    section = config.node.model_copy(update={"data_dir": folder.with_name(f"{folder.name}-{number}")})
    return config.model_copy(update={"node": section})


def renew_until_killed(config: NodeSettings, number: int) -> None:
    """The body of a child process: ends at the `number`th call, or when all is done."""
    ctypes.CDLL(None).kill_at(str(config.node.data_dir).encode(), number)
    renew_log(config)
    os._exit(0)


def main() -> None:
    config = load_config(Path(sys.argv[1]))
    for number in count(1):
        copy = copy_config(config, number)
        shutil.copytree(config.node.data_dir, copy.node.data_dir)
        child = os.fork()
        if child == 0:
            renew_until_killed(copy, number)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            assert os.waitstatus_to_exitcode(status) == 0, status
            break
        assert os.WTERMSIG(status) == signal.SIGKILL, status
    print(number)


if __name__ == "__main__":
    main()
