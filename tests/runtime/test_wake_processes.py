"""A park flag in a counters file wakes another process."""

import subprocess
import sys
from pathlib import Path

from ordo.runtime.agents.wake import ParkFlag, Waker
from ordo.runtime.native.clock import SystemClock
from ordo.runtime.native.counters import CountersManager
from ordo.runtime.native.memory import FileMemoryProvider

CHILD = """
import sys
from ordo.runtime.native.counters import CountersReader
from ordo.runtime.native.memory import FileMemoryProvider
from ordo.runtime.agents.wake import ParkFlag
memory = FileMemoryProvider().open(sys.argv[1])
reader = CountersReader(memory.slice(0, 4096), memory.slice(4096, 1024))
flag, work = ParkFlag(reader.counter(0)), reader.counter(1)
flag.announce_parked(1)
print("parked", flush=True)
while work.value == 0:
    flag.wait(20_000_000_000)
    flag.announce_parked(1) if work.value == 0 else flag.set_awake()
print("worked", work.value, flush=True)
"""


def test_waker_ends_the_park_of_another_process(shm_path: Path) -> None:
    path = str(shm_path / "counters")
    memory = FileMemoryProvider().create(path, 4096 + 1024)
    manager = CountersManager(memory.slice(0, 4096), memory.slice(4096, 1024), SystemClock())
    flag, work = manager.allocate(1003, "ordo container park flag"), manager.allocate(1000, "work")
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, path], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "parked\n"
        work.set(7)
        assert Waker(ParkFlag(flag)).wake_parked()
        assert child.stdout.readline() == "worked 7\n"
    assert child.returncode == 0
    assert flag.value == 0
