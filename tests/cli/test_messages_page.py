"""docs/MESSAGES.md, word for word, in an empty folder."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from ordo import decode, encode, messages
from ordo.deploy.launcher import ROOT
from ordo.testing import Message, OpenSession, ServiceHarness
from tests.cli.pages import Folder, Shell, follow
from tests.snippets import blocks_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(200)]
PAGE = (ROOT / "docs" / "MESSAGES.md").read_text()


def test_the_page_word_for_word(folder: Folder) -> None:
    shell = Shell(folder=folder.path, environment=folder.environment)
    try:
        follow(blocks_of(PAGE), shell)
    finally:
        shell.close()
    text = (folder.path / "bank2.py").read_text()
    assert "since=1" in text


def test_sums_of_the_bank_stay_within_their_fields() -> None:
    """Two bookings that are allowed each, and together are more than the answer holds, do not stop the members."""
    (code,) = (block.text for block in blocks_of(PAGE) if block.text.startswith("# bank.py"))
    bank = ModuleType("bank")
    sys.modules["bank"] = bank
    try:
        exec(code, vars(bank))
        most = encode(bank.Booking(7, bank.Kind.DEPOSIT, 2**64 - 2))
        few = encode(bank.Booking(7, bank.Kind.DEPOSIT, bank.CENTS_MAX))
        harness = ServiceHarness(bank.Bank)
        harness.execute(OpenSession(1, 1), *(Message(1, number, one) for number, one in enumerate((few, few, most), 2)))
    finally:
        del sys.modules["bank"]
    assert [decode(bank.Balance, one).cents for one in harness.egress(1)] == [bank.CENTS_MAX]
    refused = [bytes(one.value).decode() for one in harness.effects[-2:]]
    assert refused == [f"account 7 cannot have {2 * 10**15} cents", f"account 7 cannot have {2**64 - 2 + 10**15} cents"]


def test_every_name_for_messages_is_on_the_page() -> None:
    assert [name for name in messages.__all__ if name not in PAGE and name != "MessageView"] == []
