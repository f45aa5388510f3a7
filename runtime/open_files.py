"""How many files and sockets this process may have open."""

from __future__ import annotations

import resource


def file_count(limit: int) -> int:
    """How many files a limit of the system allows; where it has none, more than any process opens."""
    return limit if limit != resource.RLIM_INFINITY else 1 << 30


def raise_open_files() -> int:
    """Raises this process's limit of open files, and that of its children, as far as it may. Returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return file_count(hard)
