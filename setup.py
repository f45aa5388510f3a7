"""Builds every Cython module of the house with one directive table.

`ORDO_ONLY=transport,runtime` builds only those folders, `ORDO_ONLY=none` nothing; `ORDO_DEBUG=1` turns bounds checks,
overflow checks and line tracing on and optimisation off; `ORDO_THREADS=2` compiles two modules at a time.
"""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

PACKAGES = (
    "runtime",
    "transport",
    "archive",
    "consensus",
    "service_api",
    "cluster",
    "pipeline",
    "ordo",
    "tests",
)
DEBUG = os.environ.get("ORDO_DEBUG") == "1"
DIRECTIVES = {
    "language_level": "3",
    "boundscheck": DEBUG,
    "wraparound": False,
    "initializedcheck": DEBUG,
    "cdivision": True,
    "overflowcheck": DEBUG,
    "linetrace": DEBUG,
    "embedsignature": True,
    "binding": True,
    "freethreading_compatible": False,
}
COMPILE_ARGS = ["-g", "-O0"] if DEBUG else ["-g1", "-O2", "-msse4.2"]
MACROS = [("CYTHON_TRACE_NOGIL", "1")] if DEBUG else []


def extensions() -> list[Extension]:
    """One extension a .pyx file below the folders to build."""
    only = [name for name in os.environ.get("ORDO_ONLY", "").split(",") if name]
    return [
        Extension(
            ".".join(source.with_suffix("").parts),
            [str(source)],
            include_dirs=["runtime", "."],
            define_macros=MACROS,
            depends=["runtime/atomics.h"],
            extra_compile_args=[*COMPILE_ARGS, "-Wall", "-Wno-unused-function", "-Wno-unreachable-code"],
            libraries=["pthread"],
        )
        for package in (only or PACKAGES)
        for source in sorted(Path(package).rglob("*.pyx"))
    ]


if __name__ == "__main__":
    setup(
        ext_modules=cythonize(  # type: ignore[no-untyped-call]
            extensions(),
            compiler_directives=DIRECTIVES,
            build_dir="build/cython",
            nthreads=int(os.environ.get("ORDO_THREADS", "0")),
            show_all_warnings=False,
        )
    )
