"""Each Cython module with a Python-visible name has a .pyi beside it, and what the .pyi says is true (stubtest)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tools.source import PACKAGES, ROOT, Problem, files, import_name

ALLOWANCES_PATH = ROOT / "tools" / "stub_allowances.txt"
_VISIBLE = re.compile(r"^(?:def|cpdef|class|cdef class)\s+(?!_)", re.MULTILINE)


_IMPORTED = re.compile(r"^from [\w.]+ import (\([^)]*\)|[^\n]*)", re.MULTILINE)
_NOT_IN_STUB = re.compile(r"^([\w.]+)\.(\w+) is not present in stub$")


def is_borrowed(finding: str) -> bool:
    """True for "... is not present in stub" of a name that its module only imports: no part of the module's API."""
    match = _NOT_IN_STUB.match(finding)
    source = ROOT / (match[1].replace(".", "/") + ".pyx") if match else None
    if match is None or source is None or not source.exists():
        return False
    return any(match[2] in re.findall(r"\w+", names) for names in _IMPORTED.findall(source.read_text()))


def missing_stubs() -> list[Problem]:
    return [
        Problem(path, 1, f"{path.with_suffix('.pyi').name} is missing: describe its Python API")
        for path in files(".pyx", packages=PACKAGES)
        if _VISIBLE.search(path.read_text()) and not path.with_suffix(".pyi").exists()
    ]


def untrue_stubs(stubs: list[Path]) -> list[Problem]:
    """What stubtest says about built modules, one line each."""
    if not stubs:
        return []
    modules = [import_name(path) for path in stubs]
    options = ["--concise", "--ignore-disjoint-bases", "--ignore-unused-allowlist"]
    options += ["--mypy-config-file", str(ROOT / "pyproject.toml")]
    done = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", *options, "--allowlist", str(ALLOWANCES_PATH), *modules],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return []
    if "mypy build errors" in done.stdout + done.stderr:
        return [Problem(ALLOWANCES_PATH, 1, "stubs were not checked: mypy fails; mend that first")]
    lines = [line for line in done.stdout.splitlines() if line.strip()] or [done.stderr.strip()]
    return [Problem(ALLOWANCES_PATH, 1, line) for line in lines if not is_borrowed(line)]


def check() -> list[Problem]:
    stubs = [path for path in files(".pyi", packages=PACKAGES) if path.with_suffix(".pyx").exists()]
    return missing_stubs() + untrue_stubs(stubs)
