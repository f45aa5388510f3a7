"""`ordo init` and the five-minute start: what it writes runs, nothing is overwritten, no two members share a folder."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from ordo.cli import run
from ordo.cluster.node.authentication import make_authenticator
from ordo.cluster.settings.config import NodeSettings, load_config
from ordo.init import write_cluster
from ordo.runtime.native.clock import SystemClock
from ordo.runtime.security.authentication import Right
from ordo.runtime.settings.settings_text import tables_of
from ordo.transport.secure.keys import read_secret, read_trusted

HOSTS = ["--host", "10.0.0.1", "--host", "10.0.0.2", "--host", "10.0.0.3"]


def written(folder: Path) -> list[NodeSettings]:
    return [load_config(path) for path in sorted(folder.glob("node*.toml"))]


@pytest.mark.parametrize("arguments", [[], HOSTS, ["--members", "5"], [*HOSTS, "--profile", "development"]])
def test_members_are_those_of_one_cluster_with_a_data_folder_each(tmp_path: Path, arguments: list[str]) -> None:
    assert run(["init", str(tmp_path), *arguments]) == 0
    configs = written(tmp_path)
    assert [config.node.member_id for config in configs] == list(range(5 if "5" in arguments else 3))
    assert {config.member_list for config in configs} == {configs[0].member_list}
    assert len({config.node.data_dir for config in configs}) == len(configs)
    assert len({config.aeron_dir for config in configs}) == len(configs)
    endpoints = {
        endpoint for member in configs[0].member_list for endpoint in (member.ingress, member.log, member.archive)
    }
    assert len(endpoints) == 3 * len(configs)


def test_the_choice_of_on_error_is_made_and_explained(tmp_path: Path) -> None:
    for name, options in (("here", {}), ("there", {"hosts": ["10.0.0.1", "10.0.0.2"]})):
        written = write_cluster(tmp_path / name, **options)  # type: ignore[arg-type]
        for path in written.configs:
            lines = path.read_text().splitlines()
            at = lines.index('on_error = "stop"')
            assert lines[at - 1].startswith("# an exception but Reject") and '"restore"' in lines[at - 1]
            assert len(lines[at - 1]) <= 120
            assert load_config(path).service.on_error == "stop"


def test_hosts_are_for_production_and_one_machine_is_for_development(tmp_path: Path) -> None:
    for name, arguments, sync in (
        ("hosts", HOSTS, "commit"),
        ("machine", [], "none"),
        ("strict", ["--profile", "production"], "commit"),
        ("containers", [*HOSTS, "--profile", "container"], "commit"),
    ):
        assert run(["init", str(tmp_path / name), *arguments]) == 0
        assert {config.node.sync for config in written(tmp_path / name)} == {sync}
    assert [config.metrics.port for config in written(tmp_path / "hosts")] == [20009] * 3
    assert [config.metrics.port for config in written(tmp_path / "strict")] == [20009, 20019, 20029]
    assert {config.metrics.port for config in written(tmp_path / "machine")} == {None}
    for config in written(tmp_path / "containers"):
        assert (config.node.bind, config.metrics.host, config.metrics.port) == ("0.0.0.0", "0.0.0.0", 20009)
        assert config.bound_member.consensus == "0.0.0.0:20001" != config.own_member.consensus
    assert written(tmp_path / "hosts")[0].retention.bytes == 10 << 30
    assert written(tmp_path / "machine")[0].cluster.session_timeout_ns == 300 * 10**9


def test_several_hosts_are_given_keys_that_are_theirs_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", str(tmp_path), *HOSTS]) == 0
    assert "node0.toml to 10.0.0.1" in capsys.readouterr().out
    trusted = read_trusted(str(tmp_path / "trusted.keys"))
    for config, host in zip(written(tmp_path), HOSTS[1::2], strict=True):
        assert config.encryption.trusted_file == tmp_path / "trusted.keys"
        key_file = config.encryption.key_file
        assert key_file is not None
        assert key_file.stat().st_mode & 0o777 == 0o600
        own = read_secret(str(key_file)).public
        names = {trusted.callee(own, host, port) and "own" for port in range(20000, 20005)}
        assert names == {"own"}
        assert trusted.caller(own, "10.0.0.9") is None
        client = read_secret(str(tmp_path / "client.key")).public
        assert trusted.caller(client, "10.0.0.9") is not None
        assert trusted.callee(client, host, 20001) is None
    assert run(["init", str(tmp_path / "plain"), *HOSTS, "--no-encryption"]) == 0
    assert not written(tmp_path / "plain")[0].encryption.is_on
    assert run(["init", str(tmp_path / "machine")]) == 0
    assert not written(tmp_path / "machine")[0].encryption.is_on
    assert run(["init", str(tmp_path / "names"), "--host", "a.invalid", "--host", "b.invalid"]) == 0
    assert " member-1 b.invalid:20000-20004" in (tmp_path / "names" / "trusted.keys").read_text()


def test_one_machine_gets_a_token_of_its_operator_and_several_hosts_none(tmp_path: Path) -> None:
    assert run(["init", str(tmp_path / "one")]) == 0
    path = tmp_path / "one" / "operator.token"
    assert path.stat().st_mode & 0o777 == 0o600
    gate = make_authenticator(written(tmp_path / "one")[2], SystemClock())
    assert gate is not None and gate.rights_of(b"operator") == Right.OPERATOR
    assert gate.rights_of(b"") == Right.INGRESS | Right.QUERIES | Right.CONSUMERS | Right.ADMINISTRATION | Right.LOG
    assert len({one.tokens[0].hash for one in written(tmp_path / "one")}) == 1
    assert run(["init", str(tmp_path / "many"), *HOSTS]) == 0
    assert not (tmp_path / "many" / "operator.token").exists() and not written(tmp_path / "many")[0].tokens


def test_every_key_is_there_with_a_comment_and_its_default(tmp_path: Path) -> None:
    """Uncommenting what is commented out changes nothing but the keys that have no default."""
    assert run(["init", str(tmp_path), *HOSTS, "--service", "a.b:C"]) == 0
    text = (tmp_path / "node0.toml").read_text()
    lines = text.splitlines()
    for table in tables_of(NodeSettings):
        assert table.header in lines or (f"# {table.header}" in lines and not table.is_required)
        for key in table.keys:
            at = next(i for i, line in enumerate(lines) if re.match(rf"(# )?{key.name} = ", line))
            assert lines[at - 1].startswith("# "), key
    text = text[: text.index("# [[tokens]]")]  # another way to say who may open sessions than the class before it
    # Instead of [service] class; and principals, of which there is none without a token.
    text = re.sub(r"^# \[\[(services|principals)\]\]\n(#.*\n)*", "", text, flags=re.MULTILINE)
    plain = tomllib.loads(text)
    examples = "versions|ingress_channel|standbys|standby_token_file"  # instead of class; no default
    text = re.sub(rf"^# ({examples}) = .*\n", "", text, flags=re.MULTILINE)
    full = tomllib.loads(re.sub(r"^# (\w+ = .+)$", r"\1", text, flags=re.MULTILINE))
    for name in ("cluster", "snapshot"):
        assert getattr(NodeSettings.from_mapping(full), name) == getattr(NodeSettings.from_mapping(plain), name)


def test_fractions_are_numbers_and_no_texts(tmp_path: Path) -> None:
    assert run(["init", str(tmp_path)]) == 0
    assert "# rate = 0.001\n" in (tmp_path / "node0.toml").read_text()


def test_what_is_there_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "node1.toml").write_text("mine")
    assert run(["init", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["node1.toml"]
    assert (tmp_path / "node1.toml").read_text() == "mine"


def test_a_service_of_the_users_needs_no_starter(tmp_path: Path) -> None:
    assert run(["init", str(tmp_path), "--service", "mine.counter:Counter", "--port", "9000"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("node0.toml", "node1.toml", "node2.toml", "operator.token"),
    ]
    config = written(tmp_path)[2]
    assert (config.service.class_, config.own_member.ingress) == ("mine.counter:Counter", "127.0.0.1:9020")


def test_the_reference_says_what_an_optional_number_may_be() -> None:
    (keys,) = (table.keys for table in tables_of(NodeSettings) if table.header == "[[principals]]")
    kinds = {key.name: key.kind for key in keys}
    assert kinds["messages"] == "whole number from 0 to 100000000"
    assert (kinds["weight"], kinds["bytes"]) == ("whole number from 1 to 64", "size")
