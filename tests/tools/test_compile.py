"""`make build` shows how far it is and how long it takes; what makes it fail is shown, and ends it."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

from tools.compile import Progress

ROOT = Path(__file__).parents[2]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_counts_modules_and_tells_the_time_that_is_left() -> None:
    terminal = Terminal()
    progress = Progress(terminal, 0.0)
    progress.take("[ 1/75] Cythonizing runtime/native/clock.pyx\n", 1.0)
    assert progress.text == "translating 1/75"
    progress.take("[31/75] Cythonizing runtime/native/memory.pyx\n", 30.0)
    assert progress.text == "translating 31/75, about 4 min left"
    progress.take("ordo: compiled 1/75\n", 100.0)
    progress.take("something that the compiler says\n", 100.0)
    progress.take("ordo: compiled 25/75\n", 200.0)
    assert progress.text == "compiling 25/75, about 3 min left"
    progress.take("ordo: compiled 70/75\n", 400.0)
    assert progress.text == "compiling 70/75, about 20 s left"
    progress.close(420.0)
    assert terminal.getvalue().count("\r") == 6 and terminal.getvalue().rstrip().endswith("compiled in 420 s")


def test_without_a_terminal_it_is_a_line_now_and_then() -> None:
    out = io.StringIO()
    progress = Progress(out, 0.0)
    for number in range(1, 76):
        progress.take(f"ordo: compiled {number}/75\n", float(number))
    progress.close(75.0)
    lines = out.getvalue().splitlines()
    assert lines[0] == "compiling 10/75, about 1 min left" or lines[0].startswith("compiling 10/75, about ")
    assert len(lines) == 8 and lines[-1] == "compiled in 75 s"


def test_nothing_is_said_where_nothing_is_done() -> None:
    out = io.StringIO()
    Progress(out, 0.0).close(1.0)
    assert out.getvalue() == ""


def build(folder: Path, source: str) -> subprocess.CompletedProcess[str]:
    """Compiles one module in a copy that has nothing else."""
    (folder / "tools").mkdir()
    for name in ("setup.py", "tools/__init__.py", "tools/compile.py"):
        (folder / name).write_bytes((ROOT / name).read_bytes())
    (folder / "ordo" / "runtime").mkdir(parents=True)
    for name in ("runtime/native/atomics.h", "runtime/native/crc32c.h", "transport/secure/libcrypto.h"):
        name = f"ordo/{name}"
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((ROOT / name).read_bytes())
    for name in ("__init__.py", "one.pyx"):
        (folder / "ordo" / "runtime" / name).write_text(source if name == "one.pyx" else "")
    return subprocess.run(
        [sys.executable, "-m", "tools.compile", "build.log"],
        cwd=folder,
        env={**os.environ, "ORDO_ONLY": "runtime", "ORDO_OPTIMIZE": "-O0"},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


def test_a_module_is_compiled_and_counted(tmp_path: Path) -> None:
    done = build(tmp_path, "def answer():\n    return 42\n")
    assert done.returncode == 0, done
    assert "compiled in" in done.stderr and "ordo: compiled 1/1" in (tmp_path / "build.log").read_text()
    assert list((tmp_path / "ordo" / "runtime").glob("one.*.so"))


def test_what_makes_it_fail_is_shown_and_ends_it(tmp_path: Path) -> None:
    done = build(tmp_path, "def answer(:\n")
    assert done.returncode != 0 and "one.pyx" in done.stdout
