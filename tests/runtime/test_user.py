"""Who runs this: also a number that no user database has."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys

import pytest

from ordo.deploy.launcher import ROOT
from ordo.runtime.user import user_name
from tests.cli.test_misuse import GOOD

NAMES = ("LOGNAME", "USER", "LNAME", "USERNAME")
UNKNOWN_UID = 54321


def test_the_environment_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    assert user_name() == pwd.getpwuid(os.getuid()).pw_name
    monkeypatch.setenv("USER", "desk")
    assert user_name() == "desk"


def test_a_number_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)

    def unknown(uid: int) -> pwd.struct_passwd:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert user_name() == f"uid-{os.getuid()}"


def as_unknown_user(*command: str) -> subprocess.CompletedProcess[str]:
    """Runs a command under a user id without an entry, in a user namespace; skips where there are none."""
    unshare = ["unshare", "--user", f"--map-user={UNKNOWN_UID}"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody make user namespaces")
    environment = {name: value for name, value in os.environ.items() if name not in (*NAMES, "HOME")}
    command = (*unshare, *command)
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=90, check=False)


@pytest.mark.parametrize(
    "arguments",
    [
        ["cluster", "status", "--config", "{config}"],
        ["node", "--config", "{config}"],
        ["doctor", "--config", "{config}"],
        ["driver", "pid"],
        ["stat", "--config", "{config}"],
        ["archive", "serve", "--help"],
        ["gateway", "--help"],
        ["app", "run", "--help"],
        ["backup", "run", "--help"],
    ],
)
def test_commands_work_under_a_number_without_a_name(arguments: list[str], tmp_path: os.PathLike[str]) -> None:
    config = f"{tmp_path}/node.toml"
    with open(config, "w") as file:
        file.write(GOOD.format(data=f"{tmp_path}/data"))
    done = as_unknown_user(sys.executable, "-m", "ordo.cli", *(one.format(config=config) for one in arguments))
    assert "Traceback" not in done.stderr and "getpwuid" not in done.stderr, done.stderr
    assert done.returncode in (0, 1, 2) and (done.stdout or done.stderr.startswith("ordo: ")), done
