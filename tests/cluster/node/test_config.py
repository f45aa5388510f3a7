"""node.toml: every wrong key gets one clear line."""

from pathlib import Path

import pytest

from ordo.cluster.node.authentication import make_authenticator
from ordo.cluster.settings.config import NodeSettings, load_config
from ordo.cluster.wire.app_version import NO_VERSION
from ordo.runtime.errors import ConfigurationError
from ordo.runtime.native.clock import SystemClock
from ordo.runtime.security.authentication import ALL_TOPICS, EVERYTHING, Right

GOOD = """
[node]
member_id = 1
data_dir = "/tmp/ordo-test/node1"

[[members]]
id = 0
host = "10.0.0.1"
port = 20000

[[members]]
id = 1
ingress = "10.0.0.2:1"
consensus = "10.0.0.2:2"
log = "10.0.0.2:3"
catchup = "10.0.0.2:4"
archive = "10.0.0.2:5"

[cluster]
leader_heartbeat_timeout = "1s"
log_term_length = "8m"

[service]
class = "ordo.bench.loads.echo:Echo"
"""


def _load(tmp_path: Path, text: str) -> NodeSettings:
    path = tmp_path / "node.toml"
    path.write_text(text)
    return load_config(path)


def test_a_good_file_gives_members_and_module_settings(tmp_path: Path) -> None:
    config = _load(tmp_path, GOOD)
    assert config.member_list[0].catchup == "10.0.0.1:20003"
    assert config.member_list[1].log == "10.0.0.2:3"
    assert config.service.class_ == "ordo.bench.loads.echo:Echo"
    module = config.module_config()
    assert module.leader_heartbeat_timeout_ns == 1_000_000_000
    assert module.log_term_length_bytes == 8 * 1024 * 1024
    assert module.sessions_max == 4096


def test_seven_members_vote_and_this_node_may_be_a_learner_besides(tmp_path: Path) -> None:
    more = "".join(f'[[members]]\nid = {one}\nhost = "10.0.0.{one + 1}"\nport = 20000\n' for one in range(2, 8))
    learner = GOOD.replace("member_id = 1", "member_id = 1\nlearner = true")
    assert len(_load(tmp_path, learner + more).member_list) == 8
    with pytest.raises(ConfigurationError, match=r"members: 8 of these have a vote, allowed are 7; learners are named"):
        _load(tmp_path, GOOD + more)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"1s"', '"soon"', ["leader_heartbeat_timeout", "soon", "allowed"]),
        ('"8m"', '"5m"', ["log_term_length", "power of two"]),
        ('"8m"', '"8m"\nsocket_buffer = "1m"', ["receiver_window=2097152", "socket_buffer=1048576"]),
        (
            '"8m"',
            '"8m"\ningress_channel = "aeron:udp?endpoint=224.20.30.39:20500|interface=10.0.0.0/24|rcv-wnd=8m"',
            ["ingress_channel", "rcv-wnd=8388608", "so-rcvbuf=4194304"],
        ),
        ("member_id = 1", "member_id = 7", ["member_id=7", "[0, 1]"]),
        ("id = 0", "id = 1", ["must be different"]),
        ("10.0.0.2:3", "10.0.0.2:2", ["10.0.0.2:2 is consensus of member 1 and log of member 1", "port of its own"]),
        ("10.0.0.2:1", "10.0.0.1:20000", ["10.0.0.1:20000 is ingress of member 0 and ingress of member 1"]),
        ("port = 20000", "prot = 20000", ["prot", "unknown key"]),
        ('host = "10.0.0.1"', "", ["host and port"]),
        ('"1s"', '"10ms"', ["leader_heartbeat_interval"]),
        ("[service]", "[servcie]", ["servcie", "unknown key"]),
        ('data_dir = "/tmp/ordo-test/node1"', "", ["data_dir", "missing"]),
    ],
)
def test_a_wrong_key_is_named_with_what_is_allowed(tmp_path: Path, old: str, new: str, words: list[str]) -> None:
    with pytest.raises(ConfigurationError) as failure:
        _load(tmp_path, GOOD.replace(old, new, 1))
    for word in words:
        assert word in failure.value.message


GROUP = "aeron:udp?endpoint=224.20.30.39:20500"


@pytest.mark.parametrize(
    ("channel", "words"),
    [
        ("aeron:ipc", "aeron:udp.endpoint=GROUP:PORT"),
        ("aeron:udp?endpoint=10.0.0.9:20500", "of a multicast group"),
        ("aeron:udp?endpoint=224.20.30.39:0", "of a multicast group"),
        ("aeron:udp?endpoint=224.20.30.40:20500", "last byte of the group's address must be odd"),
        (f"{GROUP}|session-id=7", "session-id is not allowed here"),
        ("aeron:udp?endpoint=224.20.30.39:3", "port 3 is this member's own"),
        (f"{GROUP}|ttl=999", "ttl"),
    ],
)
def test_a_wrong_group_is_one_line(tmp_path: Path, channel: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as caught:
        _load(tmp_path, GOOD.replace("[cluster]", f'[cluster]\ningress_channel = "{channel}"'))
    assert "ingress_channel" in caught.value.message and "\n" not in caught.value.message


def test_a_group_is_taken_and_not_with_encryption(tmp_path: Path) -> None:
    text = GOOD.replace("[cluster]", f'[cluster]\ningress_channel = "{GROUP}"')
    assert _load(tmp_path, text).module_config().ingress_channel == GROUP
    with pytest.raises(ConfigurationError, match="multicast cannot be encrypted"):
        _load(tmp_path, text + '[encryption]\nkey_file = "a"\ntrusted_file = "b"\n')


def test_keys_of_the_command_line_go_before_those_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "node.toml"
    path.write_text(GOOD + '[encryption]\nkey_file = "a"\ntrusted_file = "b"\nrekey = "5s"\n')
    monkeypatch.chdir("/")
    config = load_config(path, Path("other.key")).encryption
    assert (config.key_file, config.trusted_file) == (Path("/other.key"), tmp_path / "b")
    assert config.rekey_ns == 5_000_000_000
    path.write_text(GOOD)
    both = load_config(path, Path("/etc/x.key"), Path("/etc/trusted")).encryption
    assert (both.key_file, both.trusted_file) == (Path("/etc/x.key"), Path("/etc/trusted"))
    with pytest.raises(ConfigurationError, match="give key_file and trusted_file, or none"):
        load_config(path, trusted_file=Path("/etc/trusted"))
    path.write_text("encryption = 1\n" + GOOD)
    with pytest.raises(ConfigurationError, match="encryption"):
        load_config(path, Path("/etc/x.key"), Path("/etc/trusted"))


NAMED = """
[[tokens]]
principal = "desk-7"
hash = "sha256:00000000000000000000000000000000:0000000000000000000000000000000000000000000000000000000000000000"
"""


def test_quotas_come_to_the_module(tmp_path: Path) -> None:
    quotas = '[quotas]\nsession_messages = 20000\nprincipal_bytes = "16m"\nburst = "50ms"\n'
    principal = '[[principals]]\nname = "desk-7"\nweight = 4\nfirst = true\nbytes = 0\n'
    module = _load(tmp_path, GOOD + quotas + principal + NAMED).module_config()
    assert (module.quotas.session_messages, module.quotas.principal_bytes) == (20000, 16 << 20)
    assert module.quotas.burst_ns == 50_000_000 and module.quotas.bounds_anything
    (one,) = module.principals
    assert (one.name, one.weight, one.first, one.bytes, one.messages) == ("desk-7", 4, True, 0, None)
    assert not _load(tmp_path, GOOD).module_config().quotas.bounds_anything


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[quotas]\nsession_messages = -1", "quotas.session_messages = -1: "),
        ('[quotas]\nsession_bytes = "100"', "quotas.session_bytes = '100': allowed: 0, or 1k to 64g a second"),
        ('[quotas]\nburst = "1us"', "quotas.burst = '1us': "),
        ("[quotas]\nmessages = 5", "quotas.messages: unknown key"),
        ("[quotas]\nprincipal_messages = 5", "quotas.principal_messages: no client has a principal without"),
        ('[[principals]]\nname = "a"\nfirst = true', "principals: no client has a principal without"),
        (f'{NAMED}[[principals]]\nname = "a"\nfirst = true', "principals: no token is of 'a'"),
        (f'{NAMED}[[principals]]\nname = "desk-7"', "give it a quota, a weight or first = true"),
        (f'{NAMED}[[principals]]\nname = "desk-7"\nweight = 65', "principals.0.weight = 65: "),
        (
            f'{NAMED}[[principals]]\nname = "desk-7"\nweight = 2\n[[principals]]\nname = "desk-7"\nweight = 3',
            "principals: names=['desk-7', 'desk-7'] must be different",
        ),
    ],
)
def test_a_wrong_quota_is_one_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        _load(tmp_path, f"{GOOD}\n{text}\n")
    assert words in caught.value.message and "\n" not in caught.value.message


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot read"):
        load_config(tmp_path / "none.toml")


def test_two_folders_get_two_aeron_folders(tmp_path: Path) -> None:
    first = _load(tmp_path, GOOD)
    second = _load(tmp_path, GOOD.replace("node1", "node2"))
    assert first.aeron_dir != second.aeron_dir


HASH = "sha256:" + "0" * 32 + ":" + "1" * 64
TOKENS = f'[[tokens]]\nprincipal = "desk"\nhash = "{HASH}"\n'


def test_tokens_and_a_class_make_an_authenticator(tmp_path: Path) -> None:
    assert make_authenticator(_load(tmp_path, GOOD), SystemClock()) is None
    gate = make_authenticator(_load(tmp_path, GOOD + TOKENS + 'roles = ["queries"]\n'), SystemClock())
    assert gate is not None
    assert gate.rights_of(b"desk") == Right.QUERIES
    gate = make_authenticator(_load(tmp_path, GOOD + TOKENS + 'roles = ["topic:a", "topic:b.*"]\n'), SystemClock())
    assert gate is not None
    assert (gate.rights_of(b"desk"), gate.topics_of(b"desk")) == (Right.TOPICS, ("a", "b.*"))
    with pytest.raises(ConfigurationError, match=r"role 'topic:a b': after topic: must come the name of a topic"):
        _load(tmp_path, GOOD + TOKENS + 'roles = ["topic:a b"]\n')
    with pytest.raises(ConfigurationError, match=r"must be one of ingress, .*, topic:<name>"):
        _load(tmp_path, GOOD + TOKENS + 'roles = ["lag"]\n')
    gate = make_authenticator(
        _load(tmp_path, GOOD + '[authentication]\nclass = "tests.attacks.gate:Gate"\n'), SystemClock()
    )
    assert gate is not None
    assert (gate.rights_of(b"guest"), gate.topics_of(b"guest")) == (EVERYTHING, ALL_TOPICS)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (TOKENS.replace("sha256", "md5"), "tokens.0.hash.*must be 'sha256:'"),
        (TOKENS + 'roles = ["root"]\n', "tokens.0.roles.*role 'root': must be one of"),
        (TOKENS + '[authentication]\nclass = "a:B"\n', "give one of both"),
        ('[authentication]\nanonymous_roles = ["ingress"]\n', r"anonymous_roles: goes with \[\[tokens\]\]"),
        (TOKENS + '[authentication]\nanonymous_roles = ["operator"]\n', "given to tokens and keys only"),
        (TOKENS + '[authentication]\nanonymous_roles = ["king"]\n', "role 'king': must be one of"),
        ('[authentication]\nclass = "nowhere"\n', "authentication.class='nowhere': must be module:Class"),
        ('[authentication]\nclass = "tests.attacks.gate:Missing"\n', "has no class 'Missing'"),
        ('[authentication]\nclass = "tests.attacks.gate:Whoami"\n', "it has no on_connect_request"),
    ],
)
def test_a_wrong_authentication_is_one_line(tmp_path: Path, text: str, match: str) -> None:
    with pytest.raises(ConfigurationError, match=match) as caught:
        make_authenticator(_load(tmp_path, GOOD + text), SystemClock())
    assert "\n" not in caught.value.message


ONE_SERVICE = '[service]\nclass = "ordo.bench.loads.echo:Echo"\n'
SEVERAL = """
[[services]]
class = "bank:Bank"
[[services]]
versions = { "1" = "audit.v1:Audit", "2" = "audit.v2:Audit" }
"""


def test_services_are_listed_by_id_and_a_log_begins_with_a_version_of_all(tmp_path: Path) -> None:
    config = _load(tmp_path, GOOD.replace(ONE_SERVICE, SEVERAL))
    assert config.services_by_id == [{1: "bank:Bank"}, {1: "audit.v1:Audit", 2: "audit.v2:Audit"}]
    assert config.app_versions == [[1], [1, 2]]
    module = config.module_config()
    assert (module.service_count, module.app_version, module.first_version) == (2, 1, 1)


def test_services_without_a_common_version_go_on_with_a_log_and_begin_none(tmp_path: Path) -> None:
    text = GOOD.replace(ONE_SERVICE, SEVERAL.replace('"1" = "audit.v1:Audit", ', ""))
    assert _load(tmp_path, text).module_config().first_version == NO_VERSION


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (GOOD + SEVERAL, "[service] has none beside them"),
        (GOOD.replace(ONE_SERVICE, "[[services]]\n"), "each table has a class or versions"),
        (GOOD.replace(ONE_SERVICE, '[service]\non_error = "restore"\n' + SEVERAL), "for a node with one service"),
        (GOOD.replace(ONE_SERVICE, '[[services]]\nclass = "a:B"\n' * 11), "services"),
        (
            GOOD.replace(ONE_SERVICE, SEVERAL).replace("[cluster]", "[cluster]\nid = 29826161"),
            "0 to 29826160 with several services",
        ),
    ],
)
def test_services_that_do_not_fit_are_one_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        _load(tmp_path, text)
    assert words in raised.value.message


def test_services_of_the_command_line_take_the_place_of_those_of_the_file(tmp_path: Path) -> None:
    config = _load(tmp_path, GOOD)
    assert config.with_services(()).services_by_id == [{1: "ordo.bench.loads.echo:Echo"}]
    assert config.with_services(["a:A"]).services_by_id == [{1: "a:A"}]
    assert config.with_services(["a:A", "b:B"]).services_by_id == [{1: "a:A"}, {1: "b:B"}]
    with pytest.raises(ConfigurationError, match="versions"):
        _load(tmp_path, GOOD.replace(ONE_SERVICE, SEVERAL)).with_services(["a:A"])
    with pytest.raises(ConfigurationError, match="with several services"):
        _load(tmp_path, GOOD.replace("[cluster]", "[cluster]\nid = -1")).with_services(["a:A", "b:B"])
