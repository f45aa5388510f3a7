"""The build of `make debug` notices what the normal one does not look for."""

import os
import signal
import subprocess
import sys

import pytest

from tests.runtime import atomics_probe as probe

pytestmark = pytest.mark.skipif(not probe.is_debug(), reason="only in the build of `make debug`")


def test_an_overflow_ends_the_process_and_names_the_line() -> None:
    program = "from tests.runtime.atomics_probe import add; add(2**31 - 1, 1)"
    options = {"UBSAN_OPTIONS": "abort_on_error=1"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, **options}, check=False
    )
    assert done.returncode == -signal.SIGABRT
    assert "signed integer overflow" in done.stderr and "atomics_probe.pyx" in done.stderr


def test_an_index_outside_raises() -> None:
    with pytest.raises(IndexError):
        probe.item(b"abc", 3)
