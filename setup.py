"""Builds every Cython module of the house with one directive table.

`ORDO_ONLY=transport,runtime` builds only those folders, `ORDO_ONLY=none` nothing; `ORDO_DEBUG=1` turns bounds checks
and the compiler's checks for undefined behaviour (overflow, alignment, null) on and optimisation off;
`ORDO_SANITIZE=1` builds with ASan, UBSan and the hook by which tests/fuzz counts coverage; `ORDO_OPTIMIZE=-O0` compiles
quickly code that need not be fast; `ORDO_THREADS=2` translates and compiles two modules at a time; without it, as
many as there are processors.
"""

import os
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

COLD = (
    "ordo/runtime/agents/agent",
    "ordo/runtime/native/clock",
    "ordo/runtime/native/error_log",
    "ordo/runtime/native/memory",
    "ordo/transport/control/broadcast",
    "ordo/transport/client/client_core",
    "ordo/transport/control/cnc",
    "ordo/transport/driver/media_driver",
    "ordo/transport/driver/frames/system_counters",
    "ordo/archive/archive",
    "ordo/archive/segments/erase",
    "tests/archive",
    "tests/cluster",
    "tests/runtime",
    "tests/transport",
)
"""Modules that do nothing per message: -O1 compiles them in two thirds of the time."""
HEADERS = ("ordo/runtime/native/atomics.h", "ordo/runtime/native/crc32c.h", "ordo/transport/secure/libcrypto.h")
DEBUG = os.environ.get("ORDO_DEBUG") == "1"
OPTIMIZE = os.environ.get("ORDO_OPTIMIZE")
THREADS = int(os.environ.get("ORDO_THREADS") or os.cpu_count() or 1)
DIRECTIVES = {
    "language_level": "3",
    "boundscheck": DEBUG,
    "wraparound": False,
    "initializedcheck": DEBUG,
    "cdivision": True,
    "auto_pickle": False,
    "embedsignature": True,
    "emit_code_comments": DEBUG,
    "binding": True,
    "freethreading_compatible": False,
}
# Positions are made by shifting term ids, which may be negative; both compilers define that, the standard does not.
SANITIZE = ["-fsanitize=undefined", "-fno-sanitize=shift", "-fno-sanitize-recover=undefined"] if DEBUG else []
if os.environ.get("ORDO_SANITIZE") == "1":
    SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize=shift", "-fno-sanitize-recover=undefined"]
    SANITIZE += ["-fsanitize-coverage=trace-pc", "-fno-omit-frame-pointer"]


def optimize_args(module_path: str) -> list[str]:
    """Return what the compiler is told about speed, for a module given by its path without suffix."""
    if DEBUG:
        return ["-g", "-O0", "-fno-wrapv", *SANITIZE]
    if SANITIZE:
        return ["-g1", "-O1", *SANITIZE]
    if OPTIMIZE:
        return [OPTIMIZE]
    return ["-g1", "-O1" if module_path.startswith(COLD) else "-O2"]


def folders() -> tuple[str, ...]:
    """Return the folders to build: those asked for; else the product, and in place the tests' modules as well.

    Modules are named by their folder below `ordo/`, which reaches all others of the product through links.
    """
    only = tuple(name for name in os.environ.get("ORDO_ONLY", "").split(",") if name)
    if only:
        return tuple(f"ordo/{name}" if Path("ordo", name).is_dir() else name for name in only)
    return ("ordo", "tests") if "--inplace" in sys.argv else ("ordo",)


def sources(folder: str) -> list[Path]:
    """Return the .pyx files below a folder, through links as well, which `Path.rglob` does not follow."""
    return sorted(
        Path(parent, name)
        for parent, _, names in os.walk(folder, followlinks=True)
        for name in names
        if name.endswith(".pyx")
    )


def extensions() -> list[Extension]:
    """One extension a .pyx file below the folders to build."""
    return [
        Extension(
            ".".join(source.with_suffix("").parts),
            [str(source)],
            include_dirs=["ordo/runtime/native", "."],
            depends=["setup.py", *HEADERS],
            define_macros=[("ORDO_DEBUG", "1")] if DEBUG else [],
            extra_compile_args=[
                *optimize_args(source.with_suffix("").as_posix()),
                "-Wall",
                "-Wno-unused-function",
                "-Wno-unreachable-code",
            ],
            extra_link_args=SANITIZE,
            libraries=["pthread", "dl"],
        )
        for folder in folders()
        if Path(folder).is_dir()
        for source in sources(folder)
    ]


def translated(modules: list[Extension]) -> list[Extension]:
    """Return the modules in C, or as they are for commands that compile nothing: an sdist holds the .pyx and no .c."""
    if {"sdist", "egg_info", "dist_info"} & set(sys.argv):
        return modules
    return cythonize(  # type: ignore[no-any-return, no-untyped-call]
        modules,
        compiler_directives=DIRECTIVES,
        build_dir="build/cython",
        nthreads=THREADS,
        show_all_warnings=False,
        emit_linenums=DEBUG,
    )


if __name__ == "__main__":
    if not sys.platform.startswith("linux"):
        sys.exit(f"Ordo runs on Linux (futex, recvmmsg, UDP_SEGMENT); this is {sys.platform}")
    # pip and `python -m build` pass no --parallel
    setup(ext_modules=translated(extensions()), options={"build_ext": {"parallel": THREADS}})
