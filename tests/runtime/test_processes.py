"""Is a process alive?"""

import os
import signal
import subprocess
import sys
from pathlib import Path

from ordo.runtime.processes import is_process_alive, is_process_held
from tests.cluster.integration.agreement import await_that


def test_a_process_is_alive_until_it_was_waited_for() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert is_process_alive(child.pid)
    child.communicate(b"\n")
    assert not is_process_alive(child.pid)


def test_processes_of_others_are_alive() -> None:
    assert is_process_alive(os.getpid())
    assert is_process_alive(1)


def test_a_process_that_nobody_has_waited_for_is_not_alive_once_it_has_ended() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not is_process_alive(child.pid)
    child.wait()


HAS_TWO_THREADS = """
import threading
threading.Thread(target=input).start()
print(flush=True)
"""


def test_a_process_is_held_when_all_its_threads_are() -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", HAS_TWO_THREADS], **pipes) as child:  # type: ignore[call-overload]
        assert child.stdout is not None and child.stdout.readline() == b"\n"
        assert not is_process_held(child.pid)
        child.send_signal(signal.SIGSTOP)
        await_that(lambda: is_process_held(child.pid), "a process that is held")
        child.send_signal(signal.SIGCONT)
        await_that(lambda: not is_process_held(child.pid), "a process that goes on")
        child.kill()
        child.wait()
        assert is_process_held(child.pid), "it does nothing any more"


ENDS_ITS_FIRST_THREAD = """
import ctypes, threading
threading.Thread(target=input).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_process_whose_first_thread_has_ended_is_alive_while_another_runs() -> None:
    with subprocess.Popen([sys.executable, "-c", ENDS_ITS_FIRST_THREAD], stdin=subprocess.PIPE) as child:
        stat = Path(f"/proc/{child.pid}/stat")
        await_that(lambda: ") Z " in stat.read_text(), "the end of the first thread")
        assert is_process_alive(child.pid)
        child.kill()
