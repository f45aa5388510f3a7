"""Builds every Cython module of the house with one directive table.

`ORDO_ONLY=transport,runtime` builds only those folders; `ORDO_DEBUG=1` turns bounds checks,
overflow checks and line tracing on and optimisation off.
"""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

PACKAGES = ("runtime", "transport", "archive", "consensus", "service_api", "cluster", "gateway", "pipeline",
            "examples", "benchmarks", "tests")
DEBUG = os.environ.get("ORDO_DEBUG") == "1"
DIRECTIVES = {
    "language_level": "3",
    "boundscheck": DEBUG,
    "wraparound": False,
    "initializedcheck": DEBUG,
    "cdivision": True,
    "overflowcheck": DEBUG,
    "embedsignature": True,
    "binding": True,
    "freethreading_compatible": False,
}
COMPILE_ARGS = ["-g", "-O0"] if DEBUG else ["-g1", "-O2", "-msse4.2"]


def extensions() -> list[Extension]:
    only = [name for name in os.environ.get("ORDO_ONLY", "").split(",") if name]
    return [
        Extension(
            ".".join(source.with_suffix("").parts),
            [str(source)],
            include_dirs=["runtime", "."],
            extra_compile_args=[*COMPILE_ARGS, "-Wall", "-Wno-unused-function", "-Wno-unreachable-code"],
            libraries=["pthread"],
        )
        for package in (only or PACKAGES)
        for source in sorted(Path(package).rglob("*.pyx"))
    ]


setup(
    ext_modules=cythonize(
        extensions(),
        compiler_directives=DIRECTIVES,
        build_dir="build/cython",
        annotate=os.environ.get("ORDO_ANNOTATE") == "1",
        show_all_warnings=False,
    )
)
