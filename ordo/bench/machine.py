"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
from pathlib import Path

Machine = dict[str, str | int | float]


def describe_machine() -> Machine:
    """Processor, cores, memory, kernel, Python, and where temporary files are."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_mb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // (1024 * 1024),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_average_1m": round(os.getloadavg()[0], 2),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
