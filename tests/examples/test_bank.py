"""The bank of examples/: both versions proven deterministic, and a cluster that goes from one to the other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from examples.bank import teller, v1, v2
from examples.bank.v1 import BALANCE_MAX, Balance, Deposit, Transfer
from ordo import Answer, ClusterClient, PendingRequest, decode, encode
from ordo.deploy.launcher import ROOT, LocalCluster
from ordo.errors import ClusterTimeoutError, RejectedError
from ordo.service_api.testing.environments import check_environments
from ordo.service_api.testing.harness import Input, Message, OpenSession, ServiceHarness, check_service
from tests.cluster.integration.command import order
from tests.clusters import STEADY, ready_cluster
from tests.patience import patient

VERSIONS = {"1": "examples.bank.v1:Bank", "2": "examples.bank.v2:Bank"}
BAD_ORDERS = (
    Transfer("ann", "bob", 100_000),
    Transfer("eve", "ann", 1),
    Transfer("ann", "bob", 0),
    Deposit("ann", BALANCE_MAX),
    Deposit("ann", 0),
    Balance(5),
    b"deposit ann 5",
    b"",
    encode(Deposit("ann", 5))[:-1],
)


def orders(*orders: object) -> list[Input]:
    sent = [one if isinstance(one, bytes) else encode(one) for one in orders]
    return [OpenSession(1, 1), *(Message(1, 2, one) for one in sent)]


def balances(harness: ServiceHarness, *names: str) -> list[int]:
    return [int(harness.query(name.encode())) for name in names]


@pytest.mark.parametrize("bank", [v1.Bank, v2.Bank])
def test_orders_that_cannot_be_are_refused_and_change_nothing(bank: type[v1.Bank]) -> None:
    harness = check_service(bank, orders(Deposit("ann", 500), *BAD_ORDERS))
    refused = [effect.value for effect in harness.effects if effect.kind == "reject"]
    assert len(refused) == len(BAD_ORDERS)
    assert refused[1] == b"eve has 0 cents, and %d are needed" % (1 if bank is v1.Bank else 2)
    untroubled = ServiceHarness(bank).execute(*orders(Deposit("ann", 500)))
    assert harness.take_snapshot().messages == untroubled.take_snapshot().messages
    assert balances(harness, "ann", "bob", "eve") == [500, 0, 0]


def test_version_2_takes_over_the_accounts_of_version_1_and_a_fee_from_then_on() -> None:
    old = ServiceHarness(v1.Bank).execute(*orders(Deposit("ann", 1000), Transfer("ann", "bob", 300)))
    assert [decode(Balance, one).cents for one in old.egress(1)] == [1000, 700]
    new = ServiceHarness(v2.Bank, snapshot=old.take_snapshot())
    assert balances(new, "ann", "bob", "") == [700, 300, 0]
    new.execute(*orders(Transfer("ann", "bob", 300), Transfer("bob", "ann", 1))[1:])
    assert balances(new, "ann", "bob", "") == [398, 598, 4], "3 cents for 300, and at least one"
    again = ServiceHarness(v2.Bank, snapshot=new.take_snapshot())
    assert balances(again, "ann", "bob", "") == [398, 598, 4]
    with pytest.raises(ValueError, match="snapshot of format 2: this version reads format 1"):
        ServiceHarness(v1.Bank, snapshot=new.take_snapshot())


def test_the_same_orders_give_another_state_in_each_version() -> None:
    """Which is why the log says what executes it."""
    texts = orders(Deposit("ann", 1000), Transfer("ann", "bob", 300))
    states = [ServiceHarness(bank).execute(*texts) for bank in (v1.Bank, v2.Bank)]
    assert [balances(one, "ann") for one in states] == [[700], [697]]


@pytest.mark.parametrize("name", VERSIONS.values())
def test_it_is_the_same_in_every_process(name: str) -> None:
    check_environments(name, orders(*(Deposit(f"account{number}", 7) for number in range(40)), *BAD_ORDERS))


@pytest.mark.parametrize(
    "words",
    [
        "transfer ann bob -5",
        "deposit ann 0",
        "deposit ann 1_000",
        "deposit ann +5",
        "deposit ann \u0665",
        "deposit ann " + "9" * 16,
        "deposit ann x",
        "deposit ann",
        "withdraw ann 5",
    ],
)
def test_the_teller_refuses_what_is_no_order_in_one_line(words: str) -> None:
    with pytest.raises(SystemExit, match=r"^(an order is deposit|'\S+' is no amount: allowed are) .*$"):
        teller.order_of(words.split(" "))


def test_the_teller_takes_an_amount_without_spaces() -> None:
    assert teller.order_of(["deposit", "ann", "5"]) == Deposit("ann", 5)
    with pytest.raises(SystemExit, match=r"^' 5 ' is no amount"):
        teller.order_of(["deposit", "ann", " 5 "])


def answered(payload: bytes) -> PendingRequest:
    """A request of a journal that has its answer."""
    pending: PendingRequest = PendingRequest(b"", None, lambda *_: None)
    pending.finish(Answer(payload, 1001, 1))
    return pending


def test_an_answer_that_cannot_be_read_ends_no_other_order() -> None:
    def late() -> Balance:
        raise ClusterTimeoutError("not answered in time")

    read = [lambda one=one: teller.balance_of(answered(one)) for one in (encode(Balance(12)), b"12")]
    assert [teller.outcome_of(one) for one in (read[0], read[1], late)] == [
        "12",
        "executed at log position 1001, and answered by something else: 2 bytes are no message: its header alone has 8",
        "not answered yet: it is in the journal, and the next start sends it again",
    ]


def upgrade(cluster: LocalCluster) -> None:
    done = order(cluster, "upgrade", "2")
    assert done.returncode == 0, done.stderr
    assert "version 2 of the service is in force from log position" in done.stdout


def held(client: ClusterClient, member_id: int) -> list[int]:
    """What ann, bob and, with version 2, the bank have."""
    return [int(client.query(one, member_id=member_id, timeout_s=patient(60)).payload) for one in (b"ann", b"bob", b"")]


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_cluster_goes_over_between_two_transfers_and_again_after_a_restart(tmp_path: Path) -> None:
    tables: dict[str, Any] = {"service": {"versions": VERSIONS}}
    with ready_cluster("", root=tmp_path / "cluster", tables=tables, heartbeat=STEADY) as cluster:
        endpoints = list(cluster.ingress_endpoints.values())
        journal = str(tmp_path / "till.journal")
        assert list(teller.run(endpoints, journal, Deposit("ann", 1000))) == ["1000"]
        with ClusterClient(cluster.ingress_endpoints) as client:
            assert client.request(Transfer("ann", "bob", 300), timeout_s=patient(40)) == Balance(700)
            upgrade(cluster)
            assert client.request(Transfer("ann", "bob", 300), timeout_s=patient(40)) == Balance(397)
            with pytest.raises(RejectedError, match="ann has 397 cents, and 400 are needed"):
                client.request(Transfer("ann", "bob", 397), timeout_s=patient(40))
            assert [held(client, one) for one in cluster.member_ids] == [[397, 600, 3]] * 3
            for member_id in cluster.member_ids:
                cluster.restart(member_id)
                cluster.await_leader(60)
            assert client.request(Deposit("ann", 3), timeout_s=patient(60)) == Balance(400)
            assert [held(client, one) for one in cluster.member_ids] == [[400, 600, 3]] * 3
        assert list(teller.run(endpoints, journal, Transfer("bob", "eve", 600))) == [
            "refused: bob has 600 cents, and 606 are needed"
        ]


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_an_order_of_a_teller_that_was_killed_is_executed_once(tmp_path: Path) -> None:
    """It ends with its order in the journal, whether or not that was sent."""
    with ready_cluster("examples.bank.v1:Bank", root=tmp_path / "cluster", member_count=1) as cluster:
        endpoints = list(cluster.ingress_endpoints.values())
        journal = tmp_path / "till.journal"
        program = (
            "import os, sys; from examples.bank.v1 import Deposit; from ordo import ClientSettings, ClusterClient\n"
            "client = ClusterClient(sys.argv[1].split(','), settings=ClientSettings(journal=sys.argv[2]))\n"
            "client.submit(Deposit('ann', 5)).result(30)\n"
            "client.submit(Deposit('ann', 0)); client.submit(Deposit('ann', 7)); os._exit(9)"
        )
        command = [sys.executable, "-c", program, ",".join(endpoints), str(journal)]
        killed = subprocess.run(command, cwd=ROOT, timeout=patient(60), check=False)
        assert killed.returncode == 9
        outcomes = list(teller.run(endpoints, str(journal), None))
        assert outcomes[-2:] == ["refused: an amount must be at least one cent", "12"]
        assert list(teller.run(endpoints, str(journal), Deposit("ann", 1)))[-1:] == ["13"]
