"""What is posted for a message, how it is signed, and what a receiver's answer means."""

from __future__ import annotations

import base64
import json
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from ordo.follow.entries import EntryKind, LogEntry
from ordo.gateway.webhooks.posts import RETRY_AFTER_MAX_S, Outcome, Post, id_of, outcome_of, pause_s
from ordo.gateway.webhooks.settings import WebhookSettings, read_headers
from ordo.gateway.webhooks.signing import parse_secret, read_secrets, sign
from ordo.runtime.errors import ConfigurationError

ENTRY = LogEntry(448, EntryKind.MESSAGE, 1_795_000_000_123, 3, 77, b'{"n": 1}', sequence=9)
SECRETS = ["whsec_" + base64.b64encode(bytes([one]) * 32).decode() for one in (1, 2)]
FAR = "Mon, 01 Jan 99999999999999999999 00:00:00 GMT"
ODD_ZONE = "Mon, 01 Jan 2029 00:00:00 +99999999999999999999"
SETTINGS = WebhookSettings(name="orders", url="https://example.com/hooks/7", endpoints=("127.0.0.1:20000",))


def test_a_message_has_one_id_for_ever() -> None:
    assert id_of(ENTRY) == id_of(ENTRY._replace()) == Post.of(ENTRY, "json", "").id == Post.of(ENTRY, "payload", "").id
    assert len(id_of(ENTRY)) == 32


@pytest.mark.parametrize(
    "change",
    [{"position": 544}, {"leadership_term_id": 4}, {"timestamp": 5}, {"session_id": 78}, {"payload": b'{"n": 2}'}],
    ids=str,
)
def test_another_message_has_another_id(change: dict[str, Any]) -> None:
    assert id_of(ENTRY._replace(**change)) != id_of(ENTRY)


def test_a_post_says_what_the_message_is() -> None:
    post = Post.of(ENTRY, "json", "")
    assert json.loads(post.body) == {
        "sequence": 9,
        "position": 448,
        "time_ms": 1_795_000_000_123,
        "kind": "message",
        "session": "77",
        "encoding": "utf-8",
        "payload": '{"n": 1}',
    }
    assert post.headers == {
        "content-type": "application/json",
        "webhook-id": post.id,
        "idempotency-key": f'"{post.id}"',
        "ordo-position": "448",
        "ordo-kind": "message",
        "ordo-sequence": "9",
    }


def test_a_post_says_when_the_message_arrived_where_the_log_does() -> None:
    """Its id is the same as without."""
    arrival_ns = 1_795_000_000_122_999_999
    plain, post = Post.of(ENTRY, "json", ""), Post.of(ENTRY._replace(arrival_ns=arrival_ns), "json", "")
    assert post.id == plain.id
    assert post.headers == plain.headers | {"ordo-arrival": str(arrival_ns)}
    assert json.loads(post.body) == json.loads(plain.body) | {"arrival_ns": str(arrival_ns)}


def test_a_payload_is_sent_as_it_is() -> None:
    post = Post.of(ENTRY._replace(payload=b"\xff\x00", sequence=0), "payload", "application/x-orders")
    assert (post.body, post.headers["content-type"]) == (b"\xff\x00", "application/x-orders")
    assert "ordo-sequence" not in post.headers, "a number that is not known is not told"
    binary = json.loads(Post.of(ENTRY._replace(payload=b"\xff\x00"), "json", "").body)
    assert (binary["encoding"], base64.b64decode(binary["payload"])) == ("base64", b"\xff\x00")


@given(st.text(), st.integers(0, 1))
def test_receivers_verify_a_signature_with_either_secret(text: str, chosen: int) -> None:
    now_s = int(time.time())
    secrets = [parse_secret(one) for one in SECRETS]
    headers = {
        "webhook-id": "7",
        "webhook-timestamp": str(now_s),
        "webhook-signature": sign(secrets, "7", now_s, text.encode()),
    }
    receiver = Webhook(SECRETS[chosen])
    receiver.verify(text, headers, json_parse=False)
    with pytest.raises(WebhookVerificationError):
        receiver.verify(text + "0", headers, json_parse=False)


@pytest.mark.parametrize("text", ["", "whsec_", "whsec_!!!!", "whsec_" + base64.b64encode(bytes(23)).decode(), "é"])
def test_a_weak_or_broken_secret_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "secrets"
    file.write_text(f"{SECRETS[0]}\n{text}x\n" if text else "\n")
    with pytest.raises(ConfigurationError, match=r"openssl rand|has no secret") as refused:
        read_secrets(file)
    assert SECRETS[0] not in refused.value.message
    assert "\n" not in refused.value.message


def test_secrets_are_the_lines_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "secrets"
    file.write_text("\n".join(SECRETS) + "\n\n")
    assert read_secrets(file) == [bytes([1]) * 32, bytes([2]) * 32]
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        read_secrets(tmp_path / "none")


def test_headers_are_the_lines_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "headers"
    file.write_text("Authorization: Bearer abc: def\n\nX-Team:  payments \n")
    assert read_headers(file) == {"Authorization": "Bearer abc: def", "X-Team": "payments"}


@pytest.mark.parametrize("line", ["no colon", "a b: c", "x: \x07", "Webhook-Id: 1", "content-length: 3", "x: é", ": v"])
def test_other_headers_are_refused(line: str, tmp_path: Path) -> None:
    file = tmp_path / "headers"
    file.write_text(f"X-Fine: 1\n{line}\n")
    with pytest.raises(ConfigurationError, match=r"headers:2: .*(must be a header|set by the hook)"):
        read_headers(file)


def test_a_header_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "headers").write_text("X-Team: a\nx-team: b\n")
    with pytest.raises(ConfigurationError, match="headers:2: x-team is there twice"):
        read_headers(tmp_path / "headers")


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_2xx_is_taken(status: int) -> None:
    assert outcome_of(status, b"", "60").is_taken


@pytest.mark.parametrize("status", [100, 301, 304, 400, 404, 409, 429, 500, 503])
def test_nothing_else_is_taken(status: int) -> None:
    outcome = outcome_of(status, b"because\xff", "")
    assert not outcome.is_taken
    assert str(status) in outcome.reason


@pytest.mark.parametrize(
    ("text", "wait_s"),
    [
        ("0", 0),
        ("7", 7),
        ("9" * 400, RETRY_AFTER_MAX_S),
        ("-1", 0),
        ("soon", 0),
        ("²", 0),
        ("", 0),
        (FAR, 0),
        (ODD_ZONE, 0),
    ],
)
def test_a_receiver_says_when_to_come_back(text: str, wait_s: float) -> None:
    assert outcome_of(503, b"", text).retry_after_s == wait_s


@pytest.mark.parametrize(("in_s", "least_s", "most_s"), [(-60, 0, 0), (1000, 500, 1000), (10_000, 3600, 3600)])
def test_a_receiver_names_a_date(in_s: int, least_s: float, most_s: float) -> None:
    then = datetime.now(UTC) + timedelta(seconds=in_s)
    assert least_s <= outcome_of(429, b"", format_datetime(then, usegmt=True)).retry_after_s <= most_s


def test_pauses_double_up_to_a_bound() -> None:
    pauses = [pause_s(failures, Outcome("no"), 0.5, 60.0, 1.0) for failures in (1, 2, 3, 8, 9, 10_000)]
    assert pauses == [0.5, 1.0, 2.0, 60.0, 60.0, 60.0]
    assert pause_s(3, Outcome("no"), 0.5, 60.0, 0.0) == 1.0
    assert pause_s(1, Outcome("no", retry_after_s=90.0), 0.5, 60.0, 0.0) == 90.0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"url": "ftp://example.com"}, "https://HOST"),
        ({"url": "example.com/hook"}, "https://HOST"),
        ({"url": "https://"}, "https://HOST"),
        ({"url": "https://example.com:99999/"}, "cannot be read"),
        ({"url": "https://me:hunter2@example.com/"}, "--headers-file"),
        ({"url": "https://example..com/"}, "cannot be read"),
        ({"content_type": "text/plain\nx: y"}, "one line"),
        ({"name": "a b"}, "a b"),
        ({"endpoints": ()}, "endpoints"),
        ({"endpoints": ("nonsense",)}, "nonsense"),
        ({"body": "xml"}, "json or payload"),
        ({"certificate": "c.pem"}, "give both"),
        ({"url": "http://example.com/", "ca_file": "c.pem"}, "https"),
        ({"start": -1}, "0 or more"),
        ({"in_flight_max": 0}, "1 to 256"),
        ({"tries_max": 0}, "1 to 255"),
        ({"timeout_s": 0.0}, "above 0"),
        ({"timeout_s": float("nan")}, "a number of seconds"),
        ({"retry_min_s": 2.0, "retry_max_s": 1.0}, "at most"),
    ],
    ids=str,
)
def test_mistakes_get_one_line(change: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says) as refused:
        replace(SETTINGS, **change)  # type: ignore[arg-type]
    assert "\n" not in refused.value.message
    assert "hunter2" not in refused.value.message


def test_a_receiver_is_told_of_without_its_path() -> None:
    assert replace(SETTINGS, url="https://example.com:8443/T0/secret?x=1").receiver == "https://example.com:8443"


@pytest.mark.parametrize(
    ("url", "is_readable"),
    [
        ("http://example.com/", True),
        ("http://10.0.0.7/", True),
        ("https://example.com/", False),
        ("http://localhost:8080/", False),
        ("http://127.0.0.9:8080/", False),
        ("http://[::1]:8080/", False),
    ],
)
def test_posts_that_others_can_read_are_told_of(url: str, is_readable: bool) -> None:
    assert replace(SETTINGS, url=url).leaves_machine_readable == is_readable
