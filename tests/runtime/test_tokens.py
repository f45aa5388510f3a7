"""Tokens of the configuration: who is let in, as whom, and with which rights."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from ordo.runtime.errors import ConfigurationError
from ordo.runtime.security.authentication import EVERYTHING, Right
from ordo.runtime.security.tokens import WAITING_MAX, Token, TokenAuthenticator, hash_token, new_token


@dataclass
class Session:
    """A session that asks to be opened."""

    session_id: int
    key_name: str = ""
    outcome: list[bytes | str] = field(default_factory=list)

    def challenge(self, encoded_challenge: bytes) -> None:
        self.outcome.append("challenged")

    def authenticate(self, encoded_principal: bytes) -> None:
        self.outcome.append(encoded_principal)

    def reject(self) -> None:
        self.outcome.append("rejected")


def ask(authenticator: TokenAuthenticator, credentials: bytes, session_id: int = 1) -> list[bytes | str]:
    session = Session(session_id)
    authenticator.on_connect_request(session_id, credentials, 0)
    authenticator.on_connected_session(session, 0)
    return session.outcome


def test_a_token_lets_its_principal_in_and_nothing_else_does() -> None:
    ours, theirs = new_token(), new_token()
    gate = TokenAuthenticator(
        [Token("desk", hash_token(ours), EVERYTHING), Token("viewer", hash_token(theirs), Right.QUERIES)]
    )
    assert ask(gate, ours.encode()) == [b"desk"]
    assert ask(gate, theirs.encode()) == [b"viewer"]
    for wrong in (b"", ours.encode()[:-1], ours.encode() + b"x", hash_token(ours).encode(), bytes(10**6)):
        assert ask(gate, wrong) == ["rejected"]


def test_a_verdict_is_for_one_session_and_once() -> None:
    token = new_token()
    gate = TokenAuthenticator([Token("desk", hash_token(token), EVERYTHING)])
    gate.on_connect_request(1, token.encode(), 0)
    other, own, again = Session(2), Session(1), Session(1)
    for session in (other, own, again):
        gate.on_connected_session(session, 0)
    assert [one.outcome for one in (other, own, again)] == [["rejected"], [b"desk"], ["rejected"]]


def test_connect_requests_that_are_given_up_are_forgotten() -> None:
    token = new_token()
    gate = TokenAuthenticator([Token("desk", hash_token(token), EVERYTHING)])
    for session_id in range(WAITING_MAX + 1):
        gate.on_connect_request(session_id, token.encode(), 0)
    first, last = Session(0), Session(WAITING_MAX)
    gate.on_connected_session(first, 0)
    gate.on_connected_session(last, 0)
    assert (first.outcome, last.outcome) == (["rejected"], [b"desk"])


def test_rights_are_those_of_the_configuration() -> None:
    hashes = [hash_token(new_token()) for _ in range(3)]
    gate = TokenAuthenticator(
        [Token("a", hashes[0], Right.INGRESS), Token("a", hashes[1], Right.QUERIES), Token("b", hashes[2], EVERYTHING)]
    )
    assert gate.rights_of(b"a") == Right.INGRESS | Right.QUERIES
    assert gate.rights_of(b"b") == EVERYTHING
    assert gate.rights_of(b"") == gate.rights_of(b"gone") == Right(0)


def test_with_anonymous_roles_who_shows_nothing_is_let_in_with_these() -> None:
    token = new_token()
    gate = TokenAuthenticator([Token("root", hash_token(token), Right.OPERATOR)], ["ingress", "topic:trades"])
    assert ask(gate, b"") == [b""]
    assert ask(gate, token.encode()) == [b"root"]
    assert ask(gate, b"wrong") == ["rejected"], "a wrong token is no missing one"
    assert gate.rights_of(b"") == Right.INGRESS | Right.TOPICS and gate.topics_of(b"") == ("trades",)
    assert gate.rights_of(b"root") == Right.OPERATOR and gate.rights_of(b"gone") == Right(0)


def test_a_hash_tells_nothing_of_its_token_and_differs_each_time() -> None:
    token = new_token()
    assert hash_token(token) != hash_token(token)
    assert token not in hash_token(token)


@pytest.mark.parametrize("token", ["", "short", "x" * 31])
def test_a_token_that_could_be_guessed_is_refused(token: str) -> None:
    with pytest.raises(ConfigurationError, match="it must be random"):
        hash_token(token)


@pytest.mark.parametrize("wrong", ["", "plain", "sha256:00:11", "scrypt:" + "0" * 32 + ":" + "0" * 64])
def test_what_is_no_hash_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigurationError, match="must be 'sha256:'"):
        TokenAuthenticator([Token("desk", wrong, EVERYTHING)])
