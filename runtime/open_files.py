"""The limit of files and sockets that this process may have open."""

from __future__ import annotations

import resource


def file_count(limit: int) -> int:
    """Return how many open files the system's limit allows; without a limit, more than any process opens."""
    return limit if limit != resource.RLIM_INFINITY else 1 << 30


def raise_open_files() -> int:
    """Raise this process's limit of open files, and that of its children, as far as allowed. Returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return file_count(hard)
