"""docs/START.md, command for command, in an empty folder; and `ordo dev` with a change of the code."""

from __future__ import annotations

import signal

import pytest

from ordo.deploy.launcher import ROOT
from tests.cli.pages import TIMEOUT_S, Folder, Shell, await_end, follow, on_ports_of_its_own, replacing
from tests.cluster.integration.agreement import await_that
from tests.patience import patient
from tests.snippets import Block, blocks_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
PAGE = (ROOT / "docs" / "START.md").read_text()


def test_the_page_word_for_word(folder: Folder) -> None:
    follow_page(folder)


@pytest.mark.soak  # it takes all cores from whatever runs beside it
def test_the_page_word_for_word_on_a_busy_machine(folder: Folder, load: None) -> None:
    follow_page(folder)


def follow_page(folder: Folder) -> None:
    """It ends with a killed leader, which comes back, and with equal states."""
    five_minutes, _, more = PAGE.partition("\n## Installing Ordo")
    (_, made), *blocks = blocks_of(five_minutes)
    kills = [number for number, (_, text) in enumerate(blocks) if "kill -9" in text]
    assert len(kills) == 1 and ("", "3 members are ready\n0 142\n1 142\n2 142\n") in blocks[kills[0] :]
    shell = Shell(folder=folder.path, environment=folder.environment)
    try:
        printed = shell.run(made)
        base = on_ports_of_its_own(*folder.path.glob("try/node*.toml"), folder.path / "try" / "add.py")
        follow(blocks, shell, replacing(base))
        check_next_steps(printed, blocks)
        three_machines = blocks_of(more)[-1][1]
        assert three_machines.startswith("ordo init configs --host 10.0.0.1")
        assert "trusted.keys" in shell.run(three_machines)
    finally:
        shell.close()
    await_end(folder.path / "try")


def check_next_steps(printed: str, blocks: list[Block]) -> None:
    """What `ordo init` says to do next is what the page does next, in this order."""
    _, _, steps = printed.partition("next: cd try\n")
    lines = [line.strip() for line in steps.splitlines() if line.startswith("      ")]
    commands = [line for language, text in blocks if language == "sh" for line in text.splitlines()]
    assert len(lines) == 4 and lines == commands[:4]


@pytest.mark.thorough
def test_dev_starts_again_with_the_changed_code_and_survives_a_broken_one(folder: Folder) -> None:
    folder.run("ordo init .")
    port = on_ports_of_its_own(folder.path / "add.py")
    log = folder.path / "dev.log"
    log.touch()
    process = folder.start(f"ordo dev --service counter:Counter --port {port} > dev.log 2>&1")
    await_that(lambda: "^C ends it" in log.read_text(), "the cluster")
    assert folder.run("python add.py 1 2") == "1\n3\n"
    service = folder.path / "counter.py"
    good = service.read_text()
    changed = good.replace("+ int(payload)", "+ 10 * int(payload)")
    assert changed != good
    service.write_text(changed)
    await_that(lambda: log.read_text().count("^C ends it") == 2, "the cluster with the changed code")
    assert folder.run("python add.py 1") == "40\n", "the log was executed anew"
    service.write_text("class Counter(:\n")
    await_that(lambda: "waiting for a change" in log.read_text(), "the failure of the broken code")
    assert "SyntaxError" in log.read_text()
    service.write_text(good)
    await_that(lambda: log.read_text().count("^C ends it") == 3, "the cluster with the mended code")
    assert folder.run("python add.py 0") == "4\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(patient(TIMEOUT_S)) == 0
    assert "Traceback" not in log.read_text()
