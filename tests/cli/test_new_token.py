"""`ordo cluster new-token`: what it prints is what a node and a client take."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from dataclasses import dataclass

from ordo.cluster.settings.sections import TokenSection
from ordo.runtime.security.tokens import TokenAuthenticator


@dataclass
class Session:
    session_id: int = 1
    key_name: str = ""
    principal: bytes | None = None

    def challenge(self, encoded_challenge: bytes) -> None:
        raise AssertionError

    def authenticate(self, encoded_principal: bytes) -> None:
        self.principal = encoded_principal

    def reject(self) -> None:
        self.principal = None


def new_token(*options: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "ordo.cli", "cluster", "new-token", *options]
    return subprocess.run(command, input=typed, capture_output=True, text=True, check=True)


def principal_of(table: str, token: str) -> bytes | None:
    (section,) = tomllib.loads(table)["tokens"]
    gate, session = TokenAuthenticator([TokenSection.model_validate(section).token()]), Session()
    gate.on_connect_request(1, token.encode(), 0)
    gate.on_connected_session(session, 0)
    return session.principal


def test_a_new_token_opens_sessions_with_the_table_beside_it() -> None:
    done = new_token('desk "7"')
    token = done.stderr.removeprefix("token: ").strip()
    assert len(token) == 43
    assert token not in done.stdout
    assert principal_of(done.stdout, token) == b'desk "7"'
    assert principal_of(done.stdout, token[:-1]) is None


def test_a_token_of_ones_own_is_hashed_and_not_shown() -> None:
    token = "0123456789abcdef" * 3
    done = new_token("desk", "--from-stdin", typed=token + "\n")
    assert done.stderr == ""
    assert token not in done.stdout
    assert principal_of(done.stdout, token) == b"desk"
