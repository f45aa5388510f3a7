"""The page on webhooks: its commands and programs run."""

from __future__ import annotations

import shlex
import sqlite3
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from ordo.deploy.launcher import LocalCluster
from ordo.gateway.webhooks.signing import parse_secret, sign
from tests.cluster.integration.conftest import LendCluster, lend_cluster
from tests.gateway.webhooks.receivers import hook, receiver
from tests.gateway.webhooks.test_webhook import send
from tests.patience import patient
from tests.snippets import open_page

__all__ = ["lend_cluster"]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def test_the_page(lend_cluster: LendCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with open_page("WEBHOOKS.md") as page:
        receive, is_genuine = (defined(page.take("python", f"def {one}("), one) for one in ("receive", "is_genuine"))
        command = page.take("sh", "ordo webhook orders")
        subprocess.run(["bash", "-ec", page.take("sh", "openssl rand")], check=True, timeout=patient(20))
        secret = Path("secrets.txt").read_text().strip()
        check_signatures(is_genuine, secret)
        run_receiver(lend_cluster("ordo:Ordering"), command, receive, tmp_path, lambda got: is_genuine(secret, *got))


def defined(text: str, name: str) -> Any:
    names: dict[str, Any] = {}
    exec(text, names)
    return names[name]


def check_signatures(is_genuine: Any, secret: str) -> None:
    now_s, body = int(time.time()), b"\xff\x00 any bytes"
    for sent_s, secrets, expected in [
        (now_s, [bytes(32), parse_secret(secret)], True),
        (now_s, [bytes(32)], False),
        (now_s - 10_000, [parse_secret(secret)], False),
    ]:
        signature = sign(secrets, "id", sent_s, body)
        headers = {"webhook-id": "id", "webhook-timestamp": str(sent_s), "webhook-signature": signature}
        assert is_genuine(secret, headers, body) is expected
        assert not is_genuine(secret, headers, body + b" ")


def run_receiver(cluster: LocalCluster, command: str, receive: Any, folder: Path, is_genuine: Any) -> None:
    """The receiver of the page, to which the command of the page posts, as far as it names no other machine."""
    _, words = command.split("ordo webhook ")
    name, *options = shlex.split(words.replace("\\\n", " "))
    given = dict(zip(options[1::2], options[2::2], strict=True))
    assert set(given) == {"--endpoints", "--egress", "--secret-file"}
    database = sqlite3.connect(folder / "payments.db")
    database.executescript("CREATE TABLE done (id TEXT PRIMARY KEY); CREATE TABLE payments (body BLOB)")
    with receiver() as posts:
        send(cluster, ["pay 1", "pay 2"])
        chosen = ("--egress", "127.0.0.1:0", "--secret-file", str(folder / given["--secret-file"]))
        with hook(cluster, name, posts.url, folder / "log", *chosen) as running:
            taken = posts.await_taken(2, running)
    for got in [*taken, *taken]:
        assert is_genuine(got)
        assert receive(database, got.headers, got.body) == 204
    assert database.execute("SELECT body FROM payments").fetchall() == [(one.body,) for one in taken]
    database.close()
