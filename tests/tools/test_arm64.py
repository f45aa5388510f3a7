"""What `make test SUITE=arm64` says where it cannot run; the run itself takes minutes."""

import shutil

import pytest

from tools import arm64


def test_it_names_the_packages_that_are_missing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda program: None if program == arm64.EMULATOR else f"/bin/{program}")
    assert arm64.main([]) == 1
    assert capfd.readouterr().err == "cannot build for arm64 here: apt-get install qemu-user\n"


def test_it_names_the_python_that_it_needs(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(shutil, "which", lambda program: f"/bin/{program}")
    monkeypatch.setattr(arm64, "PYTHON", "3.2")
    assert arm64.main([]) == 1
    assert capfd.readouterr().err == "cannot build for arm64 with this Python: Debian bookworm has 3.2, use that\n"
