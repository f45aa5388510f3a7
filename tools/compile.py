"""Compiles the native modules as setup.py does, and shows how far it is: `python -m tools.compile build/build.log`.

What Cython and the C compiler say goes into the log; its end is shown when they fail. On a terminal the progress is one
line that changes, elsewhere a line every TELL_EVERY_S. Needs nothing but Python, and runs in any copy of the checkout.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

TELL_EVERY_S = 10.0
LOG_LINES_SHOWN = 40
TRANSLATE_SHARE = 0.25
"""Of the whole time what Cython takes, until the C compiler has shown how long it takes."""
TRANSLATED = re.compile(r"\[ *(\d+)/(\d+)\] Cythonizing")
COMPILED = re.compile(r"ordo: compiled (\d+)/(\d+)")


class Progress:
    """What is shown, from the lines that setup.py prints."""

    def __init__(self, out: TextIO, now_s: float) -> None:
        self._out, self._begin_s, self._told_s, self._compile_begin_s = out, now_s, now_s, 0.0
        self._translated = False
        self.text = ""

    def take(self, line: str, now_s: float) -> None:
        """A line of the log."""
        if found := TRANSLATED.search(line):
            done, count = int(found[1]), int(found[2])
            self._translated = True
            share = TRANSLATE_SHARE * (done - 1) / count
            self._tell(f"translating {done}/{count}", self._begin_s, share, now_s)
        elif found := COMPILED.search(line):
            done, count = int(found[1]), int(found[2])
            self._compile_begin_s = self._compile_begin_s or now_s
            self._tell(f"compiling {done}/{count}", self._compile_begin_s, done / count, now_s)

    def _tell(self, what: str, begin_s: float, share: float, now_s: float) -> None:
        left = f", {_minutes((now_s - begin_s) / share * (1 - share))} left" if share and now_s > begin_s else ""
        self.text = what + left
        if self._out.isatty():
            print(f"\r{self.text:60}", end="", file=self._out, flush=True)
        elif now_s - self._told_s >= TELL_EVERY_S:
            print(self.text, file=self._out, flush=True)
            self._told_s = now_s

    def close(self, now_s: float) -> None:
        """Ends the line, and says how long it took where anything was done."""
        if self.text:
            done = f"compiled in {now_s - self._begin_s:.0f} s"
            print(f"\r{done:60}" if self._out.isatty() else done, file=self._out, flush=True)


def _minutes(seconds: float) -> str:
    return f"about {seconds / 60:.0f} min" if seconds >= 90 else f"about {max(1, round(seconds, -1)):.0f} s"


def show(lines: Iterable[str], log: TextIO, out: TextIO) -> None:
    """Copies the lines into the log, and shows what they mean."""
    progress = Progress(out, time.monotonic())
    for line in lines:
        log.write(line)
        progress.take(line, time.monotonic())
    progress.close(time.monotonic())


def main(log_path: Path) -> int:
    """Returns the status of the compilation."""
    command = [sys.executable, "-m", "tools.compile", "-q", "build_ext", "--inplace"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with (
        log_path.open("w") as log,
        subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process,
    ):
        assert process.stdout is not None
        show(process.stdout, log, sys.stderr)
    if process.returncode:
        print(*log_path.read_text().splitlines()[-LOG_LINES_SHOWN:], sep="\n")
    return process.returncode


def compile_counted() -> None:
    """What setup.py does, with a line for each of the changed modules that is compiled."""
    from setuptools import Extension, setup
    from setuptools.command.build_ext import build_ext
    from setuptools.modified import newer_group

    import setup as house

    class CountedBuild(build_ext):  # type: ignore[misc]
        def build_extensions(self) -> None:
            self._lock, self._done = threading.Lock(), 0
            self._changed = {one.name for one in self.extensions if self._is_changed(one)}
            super().build_extensions()

        def _is_changed(self, one: Extension) -> bool:
            target = self.get_ext_fullpath(one.name)
            return bool(self.force or newer_group([*one.sources, *one.depends], target, "newer"))

        def build_extension(self, one: Extension) -> None:
            super().build_extension(one)
            if one.name in self._changed:
                with self._lock:
                    self._done += 1
                    print(f"ordo: compiled {self._done}/{len(self._changed)}", flush=True)

    setup(
        ext_modules=house.translated(house.extensions()),
        cmdclass={"build_ext": CountedBuild},
        options={"build_ext": {"parallel": house.THREADS}},
    )


if __name__ == "__main__":
    if "build_ext" in sys.argv:
        compile_counted()
    else:
        sys.exit(main(Path(sys.argv[1])))
