"""Is a process alive?"""

import os
import subprocess
import sys

from runtime.processes import is_process_alive


def test_a_process_is_alive_until_it_was_waited_for() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert is_process_alive(child.pid)
    child.communicate(b"\n")
    assert not is_process_alive(child.pid)


def test_processes_of_others_are_alive() -> None:
    assert is_process_alive(os.getpid())
    assert is_process_alive(1)
