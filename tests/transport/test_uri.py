"""Channel URIs (transport-wire.md §11)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordo.runtime.errors import ChannelError
from ordo.transport.uri import KEYS, Address, ChannelUri, FlowControl, StartPosition, ipc, spy, udp

ALL_KEYS = {
    "endpoint": ("[::1%eth0]:40123", Address("::1%eth0", 40123)),
    "interface": ("192.168.1.0/24", "192.168.1.0/24"),
    "control": ("localhost:0", Address("localhost", 0)),
    "control-mode": ("manual", "manual"),
    "init-term-id": ("-7", -7),
    "term-id": ("-6", -6),
    "term-offset": ("64", 64),
    "term-length": ("64k", 65536),
    "mtu": ("1408", 1408),
    "ttl": ("255", 255),
    "session-id": ("-2147483648", -(1 << 31)),
    "linger": ("5s", 5_000_000_000),
    "reliable": ("false", False),
    "tags": ("3,4", (3, 4)),
    "sparse": ("true", True),
    "alias": ("my=log:x", "my=log:x"),
    "eos": ("false", False),
    "tether": ("true", True),
    "group": ("infer", "infer"),
    "rejoin": ("true", True),
    "cc": ("cubic", "cubic"),
    "fc": ("tagged,g:9/3,t:10s,rrwm:8", FlowControl("tagged", 10_000_000_000, 9, 3, 8)),
    "gtag": ("-5", -5),
    "ssc": ("true", True),
    "so-sndbuf": ("2M", 2 << 20),
    "so-rcvbuf": ("1g", 1 << 30),
    "so-tos": ("184", 184),
    "rcv-wnd": ("128K", 131072),
    "pub-wnd": ("4096", 4096),
    "nak-delay": ("100us", 100_000),
    "max-resend": ("256", 256),
    "stream-id": ("12", 12),
    "setup-limit": ("3", 3),
    "untethered-window-limit-timeout": ("1ms", 1_000_000),
    "untethered-linger-timeout": ("7ns", 7),
    "untethered-resting-timeout": ("7", 7),
    "response-correlation-id": ("prototype", -2),
    "response-endpoint": ("h:1", Address("h", 1)),
    "media-rcv-ts-offset": ("reserved", -8),
    "channel-rcv-ts-offset": ("0", 0),
    "channel-snd-ts-offset": ("8", 8),
    "ats": ("x", "x"),
}


@pytest.mark.parametrize(("key", "text"), [("mtu", "64"), ("mtu", "65504"), ("term-offset", "1073741824")])
def test_the_limits_themselves_are_allowed(key: str, text: str) -> None:
    assert ChannelUri.parse(f"aeron:udp?endpoint=a:1|{key}={text}").integer(key, 0) == int(text)


def test_every_key_has_a_test() -> None:
    assert set(ALL_KEYS) == set(KEYS)


@pytest.mark.parametrize("key", KEYS)
def test_value_of_every_key(key: str) -> None:
    text, value = ALL_KEYS[key]
    assert ChannelUri.parse(f"aeron:udp?{key}={text}").value(key) == value


def test_durations_and_ports_are_written_as_other_drivers_take_them() -> None:
    uri = ChannelUri.parse("aeron:udp?endpoint=a:008010|linger=5S|nak-delay=100US|fc=min,t:1S")
    assert (uri.endpoint, uri.value("linger"), uri.value("nak-delay")) == (Address("a", 8010), 5_000_000_000, 100_000)
    assert uri.flow_control == FlowControl("min", receiver_timeout_ns=1_000_000_000)


def test_grammar() -> None:
    uri = ChannelUri.parse("aeron-spy:aeron:udp?endpoint=a:1|future=x=y:z|endpoint=b:2")
    assert (uri.media, uri.is_spy, uri.endpoint) == ("udp", True, Address("b", 2))
    assert uri.get("future") == "x=y:z"
    assert str(uri) == "aeron-spy:aeron:udp?endpoint=b:2|future=x=y:z"
    assert str(ChannelUri.parse("aeron:ipc")) == "aeron:ipc"
    assert str(ChannelUri.parse("aeron:ipc?")) == "aeron:ipc"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "aeron",
        "aeron:tcp",
        "AERON:udp",
        "aeron:udp?endpoint",
        "aeron:udp?=x",
        "aeron:udp?endpoint=a:1||mtu=1408",
        "aeron:udp?alias=ä",
        "aeron-spy:udp",
        "aeron:ipc?alias=" + "x" * 4095,
    ],
)
def test_outside_the_grammar(text: str) -> None:
    with pytest.raises(ChannelError) as caught:
        ChannelUri.parse(text)
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("endpoint", "host"),
        ("endpoint", "host:65536"),
        ("endpoint", "::1:5"),
        ("control-mode", "magic"),
        ("term-length", "65537"),
        ("term-length", "32k"),
        ("term-length", "2g"),
        ("term-offset", "33"),
        ("mtu", "32"),
        ("mtu", "65536"),
        ("mtu", "100"),
        ("ttl", "256"),
        ("session-id", "2147483648"),
        ("session-id", "tag:-1"),
        ("linger", "5m"),
        ("linger", "-1"),
        ("tags", "1,2,3"),
        ("tags", "-1"),
        ("group", "maybe"),
        ("cc", "vegas"),
        ("fc", "mid"),
        ("fc", "min,x:1"),
        ("fc", "min,t:often"),
        ("so-rcvbuf", "12kb"),
        ("max-resend", "0"),
        ("max-resend", "257"),
        ("interface", "{eth0"),
        ("interface", "localhost:65536"),
        ("interface", "{eth0}:99999"),
        ("gtag", "x"),
        ("reliable", "tru"),
        ("rejoin", "TRUE"),
    ],
)
def test_bad_value_names_channel_key_value_and_what_is_allowed(key: str, text: str) -> None:
    with pytest.raises(ChannelError) as caught:
        ChannelUri.parse(f"aeron:udp?{key}={text}")
    assert f"{key}={text}: invalid {key}, must be" in caught.value.message
    assert caught.value.message.startswith("channel 'aeron:udp?")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("aeron:udp", "needs endpoint"),
        ("aeron-spy:aeron:udp?endpoint=a:1", "only subscriptions"),
        ("aeron:udp?control=a:1", "neither endpoint nor control-mode"),
        ("aeron:udp?control-mode=dynamic", "no control"),
        ("aeron:udp?endpoint=a:0", "port must not be 0"),
        ("aeron:udp?endpoint=a:1|term-id=3", "come together"),
        ("aeron:udp?endpoint=a:1|init-term-id=3|term-id=2|term-offset=0", "before init-term-id=3"),
        ("aeron:ipc?init-term-id=3|term-id=3|term-offset=65568|term-length=64k", "beyond term-length=65536"),
    ],
)
def test_not_a_publication(text: str, message: str) -> None:
    with pytest.raises(ChannelError, match=message):
        ChannelUri.parse(text).check_publication()


@pytest.mark.parametrize(
    "text",
    [
        "aeron:ipc",
        "aeron:udp?endpoint=a:1",
        "aeron:udp?control-mode=manual",
        "aeron:udp?control=a:0|control-mode=dynamic",
        "aeron:udp?tags=4",
        "aeron:ipc?init-term-id=2147483647|term-id=-2147483648|term-offset=0",
    ],
)
def test_publications(text: str) -> None:
    uri = ChannelUri.parse(text)
    assert uri.check_publication() is uri


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("aeron:udp", "needs endpoint"),
        ("aeron:udp?endpoint=a:0|control=b:0", "control=b:0, its port must not be 0"),
        ("aeron-spy:aeron:ipc", "read without aeron-spy:"),
    ],
)
def test_not_a_subscription(text: str, message: str) -> None:
    with pytest.raises(ChannelError, match=message):
        ChannelUri.parse(text).check_subscription()


@pytest.mark.parametrize(
    "text", ["aeron:udp?endpoint=a:0", "aeron:udp?control-mode=manual", "aeron-spy:aeron:udp?tags=1"]
)
def test_subscriptions(text: str) -> None:
    uri = ChannelUri.parse(text)
    assert uri.check_subscription() is uri


def test_destinations() -> None:
    assert ChannelUri.parse("aeron:udp?endpoint=a:1").check_destination()
    assert ChannelUri.parse("aeron:udp?endpoint=a:0").check_destination(receive=True)
    assert ChannelUri.parse("aeron:ipc").check_destination(receive=True)
    for text in ("aeron:ipc", "aeron:udp?endpoint=a:0", "aeron:udp?endpoint=a:1|mtu=1408", "aeron:udp?control=a:1"):
        with pytest.raises(ChannelError):
            ChannelUri.parse(text).check_destination()
    with pytest.raises(ChannelError, match="control-mode=response"):
        ChannelUri.parse("aeron:udp?control=a:1|control-mode=response").check_destination(receive=True)


def test_typed_access() -> None:
    uri = ChannelUri.parse(
        "aeron:udp?endpoint=224.0.1.1:5|session-id=tag:8|tags=7,8|init-term-id=1|term-id=2|term-offset=32"
    )
    assert uri.is_multicast
    assert (uri.session_id, uri.session_id_tag, uri.channel_tag, uri.entity_tag) == (None, 8, 7, 8)
    assert uri.start_position == StartPosition(1, 2, 32)
    assert uri.integer("mtu", 1408) == 1408
    assert uri.boolean("eos", True)
    assert not ChannelUri.parse("aeron:udp?endpoint=a:1").is_multicast


def test_builders() -> None:
    assert udp(endpoint="a:1", session_id=7, eos=False) == "aeron:udp?endpoint=a:1|session-id=7|eos=false"
    assert ipc(term_length="128k") == "aeron:ipc?term-length=128k"
    assert spy(udp(endpoint="a:1")) == spy(spy(udp(endpoint="a:1"))) == "aeron-spy:aeron:udp?endpoint=a:1"
    assert str(ChannelUri.parse("aeron:ipc?mtu=1408|ttl=3").with_params(mtu=None, ttl=4)) == "aeron:ipc?ttl=4"
    with pytest.raises(ChannelError, match="mtu=7"):
        ipc(mtu=7)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_only_channel_errors_escape(text: str) -> None:
    for candidate in (text, "aeron:udp?" + text, "aeron:ipc?mtu=" + text):
        try:
            uri = ChannelUri.parse(candidate)
        except ChannelError:
            continue
        assert ChannelUri.parse(str(uri)) == uri
