"""Other processes of this machine."""

from __future__ import annotations

import os


def is_process_alive(pid: int) -> bool:
    """Whether a process with this id runs, whoever owns it; a zombie counts as running."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
