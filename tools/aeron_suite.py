"""Runs compiled tests of Aeron twice, with its driver and with Ordo's in its place: `make test-aeron-suite DIR=...`.

With `--archive` the second run has Ordo's archive, too, and with `--keep-driver` only the archive.

The tests are the user's own, from a checkout of Aeron that was built there: nothing of them is here. Each class has a
JVM of its own. A test counts where it passes with Aeron; for each of these that does not pass with Ordo, the error is
printed. Aeron's tests start the driver that the system property `aeron.test.system.aeronmd.path` names, and their own
in the same JVM without it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tools.arguments import writable_file

ROOT = Path(__file__).resolve().parents[1]
RUNNER = Path(__file__).with_name("TestRun.java")
ARCHIVE = Path(__file__).with_name("OrdoArchive.java")
ARCHIVE_PROPERTY = "ordo.archive.program"
JUNIT = "org.junit.platform:junit-platform-console-standalone:1.11.4"
JUNIT_JARS = ("junit-platform-launcher", "junit-platform-console-standalone")
DRIVER_PROPERTY = "aeron.test.system.aeronmd.path"
TEST_CLASS = re.compile(r"Tests?$")
FETCH_TIMEOUT_S = 120
USAGE_STATUS = 2
JVM_OPTIONS = (
    "--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.util.zip=ALL-UNNAMED",
    "-Daeron.dir.delete.on.start=true",
)


class SuiteError(Exception):
    """What is missing for the run, in one line."""


class Outcome(NamedTuple):
    """What became of a test."""

    name: str
    has_passed: bool
    error: str = ""


@dataclass
class Run:
    """What the tests of one class did with one driver, by their ids."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    containers: dict[str, str] = field(default_factory=dict)
    """Errors of classes and templates, whose tests then did not run."""
    has_ended: bool = False
    note: str = ""
    """Why the run says nothing of a test."""

    def of(self, test_id: str, name: str) -> Outcome:
        """Return what became of a test; where it did not run, the reason."""
        if test_id in self.outcomes:
            found = self.outcomes[test_id]
            return found._replace(error=found.error or self.note)
        of_parents = [text for parent, text in self.containers.items() if test_id.startswith(parent)]
        return Outcome(name, False, (of_parents or [self.note or "did not run"])[0])


class Verdict(NamedTuple):
    """A test that passes with Aeron, and what it does with Ordo."""

    class_name: str
    name: str
    has_passed: bool
    error: str


def read_run(lines: Iterable[str]) -> Run:
    """Return what the lines of TestRun say; a test that began and did not end has no error of its own."""
    run = Run()
    for line in lines:
        kind, *rest = line.rstrip("\n").split("\t")
        if kind == "end":
            run.has_ended = True
        elif len(rest) == 3:
            test_id, name, text = rest
            if kind == "container":
                run.containers[test_id] = text
            elif kind == "skipped":
                run.containers[test_id] = f"skipped: {text}"
                run.outcomes[test_id] = Outcome(name, False, f"skipped: {text}")
            else:
                run.outcomes[test_id] = Outcome(name, kind == "successful", text)
    return run


def verdicts(class_name: str, aeron: Run, ordo: Run) -> list[Verdict]:
    """Return the tests that pass with Aeron, each with what it does with Ordo."""
    found = []
    for test_id, outcome in aeron.outcomes.items():
        if outcome.has_passed:
            other = ordo.of(test_id, outcome.name)
            found.append(Verdict(class_name, outcome.name, other.has_passed, "" if other.has_passed else other.error))
    return found


# --- the user's tests -------------------------------------------------------------------------------------------------


def compiled_folders(folder: Path) -> list[Path]:
    """Return the folders of compiled tests: `classes`, or what Gradle made in a checkout."""
    own = folder / "classes"
    found = [own] if own.is_dir() else sorted(folder.glob("*/build/classes/java/test"))
    if not found:
        raise SuiteError(f"{folder} has neither classes nor */build/classes/java/test: compile the tests there first")
    return found


def class_path(folder: Path, more: str) -> list[str]:
    """Return what the tests need: their folders, jars in `lib`, what Gradle made, and the user's own class path."""
    made = [folder.glob(f"*/build/{part}") for part in ("classes/java/main", "resources/main", "resources/test")]
    entries = [
        *compiled_folders(folder),
        *sorted(folder.glob("lib/*.jar")),
        *(one for part in made for one in sorted(part)),
    ]
    return [*map(str, entries), *filter(None, more.split(os.pathsep))]


def class_names(folders: Iterable[Path], pattern: str) -> list[str]:
    """Return the names of classes that end with Test, in which the pattern is found."""
    names = []
    for folder in folders:
        for file in sorted(folder.rglob("*.class")):
            name = ".".join(file.relative_to(folder).with_suffix("").parts)
            if TEST_CLASS.search(name) and "$" not in name and re.search(pattern, name):
                names.append(name)
    if not names:
        raise SuiteError(f"no class whose name ends with Test matches {pattern!r}")
    return names


def with_nested(folders: Iterable[Path], class_name: str) -> list[str]:
    """Return the names of a class and of the test classes within it, each of whose tests JUnit runs once."""
    place = Path(*class_name.split("."))
    found = [file for folder in folders for file in folder.glob(f"{place}$*.class") if TEST_CLASS.search(file.stem)]
    return [class_name, *sorted(f"{class_name}${file.stem.partition('$')[2]}" for file in found)]


# --- running ----------------------------------------------------------------------------------------------------------


def junit_jar(entries: list[str], given: str, folder: Path) -> list[str]:
    """Return the jar of JUnit's launcher, unless the class path has it: the given one, or Maven's."""
    if given:
        return [given]
    if any(name in entry for entry in entries for name in JUNIT_JARS):
        return []
    maven = shutil.which("mvn")
    if maven is None:
        raise SuiteError("no jar of junit-platform-launcher on the class path, and no Maven to fetch one: give JUNIT=")
    command = [maven, "-q", "-B", "dependency:copy", f"-Dartifact={JUNIT}", f"-DoutputDirectory={folder}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise SuiteError(f"Maven did not fetch {JUNIT} within {FETCH_TIMEOUT_S} s: give JUNIT=") from None
    if done.returncode:
        raise SuiteError(f"Maven cannot fetch {JUNIT}: {done.stdout[-200:].strip()}: give JUNIT=")
    return [str(one) for one in folder.glob("*.jar")]


def write_stand_in(folder: Path, name: str) -> Path:
    """Write the program that stands in for one of Aeron's, aeronmd or aeronarchive, and takes the same settings."""
    program = folder / name
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m tools.{name} "$@"\n')
    program.chmod(0o755)
    return program


class Programs(NamedTuple):
    """What a run has in the place of the driver and the archive that Aeron's tests start in their JVM."""

    driver: Path | None = None
    archive: Path | None = None


@dataclass
class Suite:
    """The tests of a folder, and how they are run."""

    folder: Path
    entries: list[str]
    work: Path
    options: list[str]
    timeout_s: float

    @property
    def archive_classes(self) -> Path:
        """Where the Archive class is that starts a program."""
        return self.work / "archive"

    def compile_runner(self) -> None:
        """Compile TestRun with the JUnit of the class path."""
        if shutil.which("javac") is None or shutil.which("java") is None:
            raise SuiteError("a JDK (java, javac) is not installed")
        self._compile(RUNNER, self.work, "this JUnit")

    def replace_archive(self) -> None:
        """Write the Archive class that starts a program, made of the one of the class path with its Byte Buddy."""
        self.archive_classes.mkdir()
        self._compile(ARCHIVE, self.archive_classes, "these Aeron and Byte Buddy")
        classes = os.pathsep.join([*self.entries, str(self.archive_classes)])
        self._call(
            ["java", "-cp", classes, f"io.aeron.archive.{ARCHIVE.stem}", str(self.archive_classes)],
            "Byte Buddy cannot rewrite the class path's Archive",
        )

    def _compile(self, source: Path, folder: Path, jars: str) -> None:
        self._call(
            ["javac", "-cp", os.pathsep.join(self.entries), "-d", str(folder), str(source)],
            f"javac cannot compile {source.name} with {jars}",
        )

    @staticmethod
    def _call(command: list[str], failure: str) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SuiteError(f"{failure}: {done.stderr[-500:].strip()}")

    def command(self, programs: Programs, results: Path, class_name: str) -> list[str]:
        """Return the command that runs the tests of a class."""
        command = ["java", *JVM_OPTIONS, *self.options]
        entries = [*self.entries, str(self.work)]
        if programs.driver is not None:
            command.append(f"-D{DRIVER_PROPERTY}={programs.driver}")
        if programs.archive is not None:
            command.append(f"-D{ARCHIVE_PROPERTY}={programs.archive}")
            entries.insert(0, str(self.archive_classes))
        names = with_nested(compiled_folders(self.folder), class_name)
        return [*command, "-cp", os.pathsep.join(entries), "TestRun", str(results), *names]

    def run(self, class_name: str, programs: Programs) -> Run:
        """Run the tests of a class; all that they started ends with it."""
        results = self.work / "results"
        results.write_text("")
        command = self.command(programs, results, class_name)
        with (self.work / "output").open("w+") as output:
            process = subprocess.Popen(
                command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
            try:
                status = process.wait(self.timeout_s)
                note = f"the run ended with status {status}" if status else ""
            except subprocess.TimeoutExpired:
                note = f"not done within {self.timeout_s:g} s"
            finally:
                _kill_group(process.pid)
                process.wait()
            output.seek(0)
            said = output.read().split("\n")
        run = read_run(results.read_text().splitlines())
        if not run.has_ended:
            run.note = note or "the run did not end"
            if not run.outcomes:
                run.note += f": {next((line for line in said if line.strip()), 'it said nothing')[:300]}"
        return run


def _kill_group(pid: int) -> None:
    """End a JVM and the drivers that its tests left behind."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


# --- the table --------------------------------------------------------------------------------------------------------


def table(found: list[Verdict], notes: list[str]) -> Iterator[str]:
    """Yield the table of classes, what fails with Ordo only, and the classes of which nothing is known."""
    yield "| suite | pass with Aeron | of these pass with Ordo |"
    yield "|---|---|---|"
    classes = list(dict.fromkeys(one.class_name for one in found))
    for class_name in classes:
        own = [one for one in found if one.class_name == class_name]
        yield f"| {class_name} | {len(own)} | {sum(one.has_passed for one in own)} |"
    yield f"| all | {len(found)} | {sum(one.has_passed for one in found)} |"
    failed = [one for one in found if not one.has_passed]
    if failed:
        yield ""
        yield "fail with Ordo only:"
        yield from (f"  {one.name}: {one.error}" for one in failed)
    if notes:
        yield ""
        yield "not run with Aeron:"
        yield from (f"  {note}" for note in notes)


def as_json(found: list[Verdict], notes: list[str]) -> str:
    return json.dumps(
        {
            "passed_with_aeron": len(found),
            "passed_with_ordo": sum(one.has_passed for one in found),
            "tests": [
                {"class": one.class_name, "name": one.name, "passed_with_ordo": one.has_passed, "error": one.error}
                for one in found
            ],
            "not_run_with_aeron": notes,
        },
        indent=2,
    )


def run_suite(suite: Suite, names: list[str], aeron: Programs, ordo: Programs) -> tuple[list[Verdict], list[str]]:
    """Return the verdicts of classes, and a line for each class whose tests did not run with Aeron."""
    found: list[Verdict] = []
    notes: list[str] = []
    for number, name in enumerate(names, 1):
        print(f"[{number}/{len(names)}] {name}", file=sys.stderr, flush=True)
        with_aeron = suite.run(name, aeron)
        if with_aeron.note:
            notes.append(f"{name}: {with_aeron.note}")
        if any(outcome.has_passed for outcome in with_aeron.outcomes.values()):
            own = verdicts(name, with_aeron, suite.run(name, ordo))
            print("\n".join(progress(own)), file=sys.stderr, flush=True)
            found += own
    return found, notes


def progress(own: list[Verdict]) -> Iterator[str]:
    """Yield how a class went, since a whole suite takes an hour: what fails can be looked at meanwhile."""
    yield f"  {sum(one.has_passed for one in own)} of {len(own)} pass with Ordo"
    yield from (f"  {one.name}: {one.error}" for one in own if not one.has_passed)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tools.aeron_suite")
    parser.add_argument("folder", type=Path, help="a folder with classes and lib/*.jar, or a built checkout of Aeron")
    parser.add_argument("--class-path", default="", help="what the tests need besides")
    parser.add_argument("--classes", default="", help="a pattern: run the classes in whose names it is found")
    parser.add_argument("--aeronmd", type=Path, help="Aeron's own C driver; its Java driver without")
    parser.add_argument("--archive", action="store_true", help="with Ordo's driver, run Ordo's archive as well")
    parser.add_argument("--keep-driver", action="store_true", help="with Ordo's archive, run Aeron's driver")
    parser.add_argument("--java-options", default="", help="options for the JVM, separated by spaces")
    parser.add_argument("--junit", default="", help="a jar with JUnit's launcher")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for a class and a driver")
    parser.add_argument("--json", type=writable_file, help="write the verdicts here too")
    given = parser.parse_args(arguments)
    if given.keep_driver and not given.archive:
        parser.error("--keep-driver is for --archive: without, nothing would be Ordo's")
    return given


def main(arguments: list[str] | None = None) -> int:
    """Print the table; 1 when a test fails with Ordo only, 2 when the run was not possible."""
    given = parse(arguments)
    folder = given.folder.resolve()
    with tempfile.TemporaryDirectory(prefix="aeron-suite-") as name:
        work = Path(name)
        try:
            entries = class_path(folder, given.class_path)
            entries = junit_jar(entries, given.junit, work / "junit") + entries
            suite = Suite(folder, entries, work, given.java_options.split(), given.timeout)
            suite.compile_runner()
            if given.archive:
                suite.replace_archive()
            names = class_names(compiled_folders(folder), given.classes)
        except SuiteError as error:
            print(f"aeron suite: {error}", file=sys.stderr)
            return USAGE_STATUS
        aeron = Programs(given.aeronmd and given.aeronmd.resolve())
        ordo = Programs(
            aeron.driver if given.keep_driver else write_stand_in(work, "aeronmd"),
            write_stand_in(work, "aeronarchive") if given.archive else None,
        )
        found, notes = run_suite(suite, names, aeron, ordo)
    print("\n".join(table(found, notes)))
    if given.json:
        given.json.write_text(as_json(found, notes) + "\n")
    return int(not found or not all(one.has_passed for one in found))


if __name__ == "__main__":
    sys.exit(main())
