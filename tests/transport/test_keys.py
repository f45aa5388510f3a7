"""Keys as text, as files, and at the command line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ordo.cli import run
from ordo.runtime.errors import ConfigurationError
from ordo.runtime.native.clock import VirtualClock
from ordo.runtime.security.authentication import Right
from ordo.runtime.security.key_authentication import KeyAuthenticator
from ordo.transport.driver.channels.settings import MediaDriverSettings
from ordo.transport.driver.channels.settings_file import load_driver_settings
from ordo.transport.secure.keys import (
    Keyring,
    TrustedRoles,
    add_trusted,
    parse_place,
    parse_public,
    parse_trusted,
    public_text,
    read_secret,
    write_new_secret,
)

KEYS = [public_text(bytes([number]) * 32) for number in range(4)]


def test_new_show_and_trust(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key_file, trusted_file = str(tmp_path / "node.key"), str(tmp_path / "trusted.keys")
    assert run(["keys", "new", key_file]) == 0
    public = capsys.readouterr().out.strip()
    assert os.stat(key_file).st_mode & 0o777 == 0o600
    assert run(["keys", "show", key_file]) == 0
    assert capsys.readouterr().out.strip() == public
    assert run(["keys", "trust", trusted_file, public, "--name", "one", "--at", "127.0.0.1:9000-9004"]) == 0
    assert run(["keys", "trust", trusted_file, KEYS[0], "--name", "two"]) == 0
    trusted = Keyring(key_file, trusted_file).trusted
    assert len(trusted) == 2
    found = trusted.callee(parse_public(public), "127.0.0.1", 9001)
    assert found is not None and found.name == "one"


def test_a_key_file_is_never_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "node.key")
    pair = write_new_secret(path)
    assert run(["keys", "new", path]) == 2
    assert "is there already" in capsys.readouterr().err
    assert read_secret(path) == pair


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_key_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = str(tmp_path / "node.key")
    write_new_secret(path)
    os.chmod(path, mode)
    with pytest.raises(ConfigurationError, match="others may read it"):
        read_secret(path)


@pytest.mark.parametrize(("mode", "is_taken"), [(0o440, True), (0o640, True), (0o460, False), (0o444, False)])
def test_a_key_file_of_root_may_be_read_through_its_group(
    tmp_path: Path, mode: int, is_taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Kubernetes mounts a Secret; the owner's own file may not."""
    path = str(tmp_path / "node.key")
    write_new_secret(path)
    os.chmod(path, mode)
    monkeypatch.setattr("os.fstat", lambda descriptor: found_of(os.stat(descriptor), owner=0))
    monkeypatch.setattr("os.geteuid", lambda: 10001)
    if is_taken:
        read_secret(path)
    else:
        with pytest.raises(ConfigurationError, match="others may read it"):
            read_secret(path)
    monkeypatch.setattr("os.fstat", lambda descriptor: found_of(os.stat(descriptor), owner=10001))
    with pytest.raises(ConfigurationError, match="others may read it"):
        read_secret(path)


def found_of(found: os.stat_result, owner: int) -> os.stat_result:
    """What is said of a file if it is this user's."""
    return os.stat_result((*found[:4], owner, *found[5:]))


@pytest.mark.parametrize(
    ("content", "text"),
    [("", "must hold one secret key"), ("x25519:abc\n", "must be secret-x25519:"), ("secret-x25519:!\n", "43 letters")],
)
def test_what_is_no_key_file(tmp_path: Path, content: str, text: str) -> None:
    path = tmp_path / "node.key"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(ConfigurationError, match=text):
        read_secret(str(path))


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="ordo keys new"):
        read_secret(str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("x25519:short name", "line 2: public key"),
        (KEYS[0] + "=", "line 2: public key"),
        ("secret-x25519:" + KEYS[0][7:], "line 2: this is a secret key"),
        (f"{KEYS[0]} name 10.0.0.1:70000", "a place is host"),
        (f"{KEYS[0]} name 10.0.0.1:9-8", "a place is host"),
        (f"{KEYS[1]} again", "stands there twice"),
    ],
)
def test_wrong_lines_are_named(line: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        parse_trusted(f"{KEYS[1]} one # a comment\n{line}\n", "trusted.keys")


def test_a_wrong_line_is_not_added(tmp_path: Path) -> None:
    path = str(tmp_path / "trusted.keys")
    add_trusted(path, KEYS[0], "one", [])
    before = Path(path).read_text()
    for name, places in (("two words", []), ("two", ["10.0.0.1:x"]), ("", ["10.0.0.1"])):
        with pytest.raises(ConfigurationError):
            add_trusted(path, KEYS[1], name, places)
    with pytest.raises(ConfigurationError, match="twice"):
        add_trusted(path, KEYS[0], "one", [])
    assert Path(path).read_text() == before


def test_where_a_key_is_trusted() -> None:
    trusted = parse_trusted(
        f"{KEYS[0]} member 10.0.0.1:9000-9004\n{KEYS[1]} client\n"
        f"{KEYS[2]} host 10.0.0.1\n{KEYS[3]} six [fd00::1]:9000\n",
        "",
    )
    member, client, host, six = (parse_public(key) for key in KEYS)
    assert trusted.caller(member, "10.0.0.1") and not trusted.caller(member, "10.0.0.2")
    assert trusted.caller(client, "10.0.0.1") and trusted.callee(client, "10.0.0.1", 8999)
    assert trusted.callee(member, "10.0.0.1", 9004) and trusted.callee(member, "10.0.0.1", 40000)
    assert not trusted.callee(client, "10.0.0.1", 9000), "the port is the member's"
    assert not trusted.callee(host, "10.0.0.1", 9004) and trusted.callee(host, "10.0.0.1", 9005)
    assert trusted.callee(six, "fd00::1", 9000) and not trusted.caller(six, "fd00::2")
    assert trusted.caller(bytes(31) + b"\xff", "10.0.0.1") is None
    assert parse_place("[fd00:0::1]:9000-9001") == ("fd00::1", 9000, 9001)


def test_a_keyring_is_read_again_when_a_file_changed(tmp_path: Path) -> None:
    key_file, trusted_file = str(tmp_path / "node.key"), tmp_path / "trusted.keys"
    pair = write_new_secret(key_file)
    trusted_file.write_text(KEYS[0] + "\n")
    keyring = Keyring(key_file, str(trusted_file))
    assert not keyring.reload() and keyring.own == pair
    trusted_file.write_text(f"{KEYS[0]}\n{KEYS[1]}\n")
    assert keyring.reload() and len(keyring.trusted) == 2
    trusted_file.write_text("what is this\n")
    with pytest.raises(ConfigurationError, match="line 1"):
        keyring.reload()
    assert len(keyring.trusted) == 2 and not keyring.reload(), "what cannot be used changes nothing, and is said once"


def test_keys_of_one_name_have_the_same_roles() -> None:
    """They are one principal: which roles it has must not depend on the order of lines."""
    same = "".join(f"{key} desk roles=ingress,queries\n" for key in KEYS[:2])
    assert [key.rights for key in parse_trusted(same, "")] == [Right.INGRESS | Right.QUERIES] * 2
    for other in ("roles=ingress", ""):
        with pytest.raises(
            ConfigurationError, match=r"^trusted\.keys: line 3: name 'desk' stands there with other roles"
        ):
            parse_trusted(f"{same}{KEYS[2]} desk {other}\n", "trusted.keys")
    assert len(parse_trusted(f"{KEYS[0]}\n{KEYS[1]}\n", "")) == 2, "keys without a name are nobody's namesakes"


def test_whose_holder_a_key_is() -> None:
    lines = (f"{KEYS[0]} desk", f"{KEYS[1]} desk", KEYS[2])
    trusted = parse_trusted("\n".join(lines), "")
    old, new, nameless, unknown = (parse_public(key) for key in KEYS)
    assert trusted.are_one(old, new) and trusted.are_one(nameless, nameless) and trusted.are_one(unknown, old)
    assert (
        not trusted.are_one(old, nameless) and not trusted.are_one(nameless, old) and not trusted.are_one(old, unknown)
    )
    assert not parse_trusted(f"{KEYS[0]}\n{KEYS[1]}\n", "").are_one(old, new), "two without a name are two"


def test_roles_are_looked_at_again_every_100_ms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, clock, looks = tmp_path / "trusted.keys", VirtualClock(), []
    path.write_text(f"{KEYS[0]} desk roles=ingress\n")
    stat = os.stat
    monkeypatch.setattr("ordo.transport.secure.keys.os.stat", lambda one: looks.append(one) or stat(one))
    roles = TrustedRoles(str(path), clock)
    assert roles.read() == {"desk": Right.INGRESS}
    path.write_text(f"{KEYS[0]} desk roles=queries,topic:trades\n")
    seen = len(looks)
    for _ in range(99):
        clock.advance(1_000_000)
        assert roles.read() == {"desk": Right.INGRESS}
    assert len(looks) == seen
    clock.advance(1_000_000)
    assert roles.read() == {"desk": Right.QUERIES | Right.TOPICS}
    assert roles.read_topics() == {"desk": ("trades",)}
    gate = KeyAuthenticator(roles.read, read_topics=roles.read_topics)
    assert (gate.topics_of(b"desk"), gate.topics_of(b"nobody")) == (("trades",), ())


@pytest.mark.parametrize("reader", ["keyring", "roles"])
def test_a_file_that_changes_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str
) -> None:
    """Its stamp may be the same then as before, or that of what was not read: what was read counts for one look."""
    key_file, path, clock = str(tmp_path / "node.key"), tmp_path / "trusted.keys", VirtualClock()
    write_new_secret(key_file)
    path.write_text(f"{KEYS[0]} one roles=log\n")
    times = os.stat(path)

    def change(text: str, source: str) -> object:
        found = parse_trusted(text, source)
        path.write_text(f"{KEYS[0]} two roles=log\n")
        monkeypatch.undo()
        return found

    monkeypatch.setattr("ordo.transport.secure.keys.parse_trusted", change)
    if reader == "keyring":
        keyring = Keyring(key_file, str(path))
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        assert keyring.reload() and [key.name for key in keyring.trusted] == ["two"]
    else:
        roles = TrustedRoles(str(path), clock)
        assert roles.read() == {"one": Right.LOG}
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        clock.advance(100_000_000)
        assert roles.read() == {"two": Right.LOG}


def test_a_drivers_file_has_an_encryption_table(tmp_path: Path) -> None:
    path = tmp_path / "driver.toml"
    path.write_text('[encryption]\nkey_file = "a"\ntrusted_file = "b"\nrekey = "10s"\n')
    config = load_driver_settings(path)
    assert (config.encryption_key_file, config.encryption_trusted_file) == ("a", "b")
    assert config.encryption_rekey_ns == 10_000_000_000
    path.write_text('[encryption]\nkey = "a"\n')
    with pytest.raises(ConfigurationError, match="encryption_key: unknown key"):
        load_driver_settings(path)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"encryption_key_file": "a"}, "give key_file and trusted_file"),
        ({"encryption_key_file": "a", "encryption_trusted_file": "b", "mtu": 65504}, "at most 65472"),
        ({"encryption_rekey_ns": 1}, "must be 1 s or more"),
    ],
)
def test_settings_that_do_not_fit(settings: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        MediaDriverSettings(directory="x", **settings)  # type: ignore[arg-type]
