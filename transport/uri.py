"""Channel URIs: parse, check, build (transport-wire.md §11).

`["aeron-spy:"] "aeron:" ("udp"|"ipc") ["?" key "=" value ("|" key "=" value)*]`. Later duplicates win, unknown keys are
kept and ignored. Everything wrong is a ChannelError of one line: the channel, the key, the value, what is allowed.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ordo.runtime.errors import ChannelError

SPY_PREFIX: Final = "aeron-spy:"
PREFIX: Final = "aeron:"
UDP: Final = "udp"
IPC: Final = "ipc"
URI_LENGTH_MAX: Final = 4095
PROTOTYPE_CORRELATION_ID: Final = -2
NULL_TAG: Final = -1

_INT32: Final = range(-(1 << 31), 1 << 31)
_INT64: Final = range(-(1 << 63), 1 << 63)
_SIZE_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_DURATION_UNITS_NS: Final = {"": 1, "ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
INTERFACE: Final = re.compile(
    r"(?:\{[^{}]+\}(?::(?P<named_port>\d{1,5}))?"
    r"|(?:\[[^\[\]]+\]|(?P<host>[^\[\]{}:/]+))(?::(?P<port>\d{1,5}))?(?P<prefix>/\d{1,3})?)"
)
"""An `interface` parameter; `host` is a name or an IPv4 address."""
_START_KEYS: Final = ("init-term-id", "term-id", "term-offset")


class Address(NamedTuple):
    """Host as written (a name, an IPv4 address, or an IPv6 address without brackets) and port 0..65535."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_numeric(self) -> bool:
        """False when the host is a name, which may have another address the next time."""
        try:
            ipaddress.ip_address(self.host.split("%")[0])
        except ValueError:
            return False
        return True

    @property
    def is_multicast(self) -> bool:
        """True when the host is a literal multicast address."""
        return self.is_numeric and ipaddress.ip_address(self.host.split("%")[0]).is_multicast


class StartPosition(NamedTuple):
    """Where a publication starts: `init-term-id`, `term-id`, `term-offset`."""

    initial_term_id: int
    term_id: int
    term_offset: int


class FlowControl(NamedTuple):
    """`fc=`: the strategy and its options; None or -1 for those that the channel does not give."""

    strategy: str
    receiver_timeout_ns: int | None = None
    group_tag: int | None = None
    group_size_min: int | None = None
    retransmit_window_multiple: int | None = None


# --- values: each parser raises ValueError(what is allowed) -----------------------------------------------------------


def parse_integer(text: str, allowed: range = _INT64) -> int:
    """Return a decimal integer that lies inside a range."""
    if not re.fullmatch(r"[+-]?\d+", text) or int(text) not in allowed:
        raise ValueError(f"an integer from {allowed.start} to {allowed.stop - 1}")
    return int(text)


def parse_size(text: str) -> int:
    """Return bytes: an integer, optionally with the suffix k, m or g (powers of 1024)."""
    match = re.fullmatch(r"(\d+)([kKmMgG]?)", text)
    if not match:
        raise ValueError("bytes, such as 65536, 64k, 16m or 1g")
    return int(match[1]) * _SIZE_UNITS[match[2].lower()]


def parse_duration_ns(text: str) -> int:
    """Return nanoseconds: an integer, optionally with the suffix ns, us, ms or s in either case; ns when bare."""
    match = re.fullmatch(r"(\d+)(ns|us|ms|s|)", text.lower())
    if not match:
        raise ValueError("a duration, such as 500, 100us, 20ms or 5s")
    return int(match[1]) * _DURATION_UNITS_NS[match[2]]


def parse_address(text: str) -> Address:
    """Parse `host:port` or `[ipv6%scope]:port`; the port is mandatory."""
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|([^\[\]:/\s]+)):0*(\d{1,5})", text)
    if not match or int(match[3]) > 65535:
        raise ValueError("host:port or [ipv6]:port with a port from 0 to 65535")
    return Address(match[1] or match[2], int(match[3]))


def parse_flow_control(text: str) -> FlowControl:
    """Parse `max`, `min` or `tagged`, and options `t:<duration>`, `g:[<tag>][/<group size min>]`, `rrwm:<n>`."""
    allowed = "max, min or tagged, then ,t:<duration> ,g:<tag>/<group size min> ,rrwm:<n> as needed"
    strategy, *options = text.split(",")
    if strategy not in ("max", "min", "tagged"):
        raise ValueError(allowed)
    flow = FlowControl(strategy)
    for option in options:
        name, _, value = option.partition(":")
        try:
            flow = _with_option(flow, name, value)
        except (ValueError, KeyError):
            raise ValueError(allowed) from None
    return flow


def _with_option(flow: FlowControl, name: str, value: str) -> FlowControl:
    if name == "t":
        return flow._replace(receiver_timeout_ns=parse_duration_ns(value))
    if name == "rrwm":
        return flow._replace(retransmit_window_multiple=parse_integer(value, range(1, 1 << 31)))
    if name != "g":
        raise KeyError(name)
    tag, _, size = value.partition("/")
    if tag:
        flow = flow._replace(group_tag=parse_integer(tag))
    return flow._replace(group_size_min=parse_integer(size, range(1 << 31))) if size else flow


def _term_length(text: str) -> int:
    value = parse_size(text)
    if not 1 << 16 <= value <= 1 << 30 or value & (value - 1):
        raise ValueError("a power of two from 64k to 1g")
    return value


def _mtu(text: str) -> int:
    value = parse_size(text)
    if not 32 < value <= 65504 or value % 32:
        raise ValueError("a multiple of 32 from 64 to 65504")
    return value


def _term_offset(text: str) -> int:
    value = parse_integer(text, range((1 << 30) + 1))
    if value % 32:
        raise ValueError("a multiple of 32 up to the term length")
    return value


def _one_of(*values: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in values:
            raise ValueError(" or ".join(values))
        return text

    return parse


def _integer(allowed: range) -> Callable[[str], int]:
    return lambda text: parse_integer(text, allowed)


def _session_id(text: str) -> int | str:
    return f"tag:{_tag(text[4:])}" if text.startswith("tag:") else parse_integer(text, _INT32)


def _tag(text: str) -> int:
    value = parse_integer(text)
    if value == NULL_TAG:
        raise ValueError("a 64-bit integer other than -1")
    return value


def _tags(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if len(parts) > 2:
        raise ValueError("<channel tag> or <channel tag>,<entity tag>")
    return tuple(_tag(part) for part in parts)


def _response_correlation_id(text: str) -> int:
    if text == "prototype":
        return PROTOTYPE_CORRELATION_ID
    try:
        return parse_integer(text, range(-1, 1 << 63))
    except ValueError:
        raise ValueError("a number greater than or equal to -1, or 'prototype'") from None


def _timestamp_offset(text: str) -> int:
    return -8 if text == "reserved" else parse_integer(text, range(1 << 31))


def _interface(text: str) -> str:
    parts = INTERFACE.fullmatch(text)
    if parts is None or int(parts["port"] or parts["named_port"] or 0) > 65535:
        raise ValueError("address[:port][/prefix] or {interface name}[:port], with a port from 0 to 65535")
    return text


_ANY_TEXT: Callable[[str], str] = str


def _bool(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("true or false")
    return text == "true"


KEYS: Final[Mapping[str, Callable[[str], object]]] = {
    "endpoint": parse_address,
    "interface": _interface,
    "control": parse_address,
    "control-mode": _one_of("manual", "dynamic", "response"),
    "init-term-id": _integer(_INT32),
    "term-id": _integer(_INT32),
    "term-offset": _term_offset,
    "term-length": _term_length,
    "mtu": _mtu,
    "ttl": _integer(range(256)),
    "session-id": _session_id,
    "linger": parse_duration_ns,
    "reliable": _bool,
    "tags": _tags,
    "sparse": _bool,
    "alias": _ANY_TEXT,
    "eos": _bool,
    "tether": _bool,
    "group": _one_of("true", "false", "infer"),
    "rejoin": _bool,
    "cc": _one_of("static", "cubic"),
    "fc": parse_flow_control,
    "gtag": _integer(_INT64),
    "ssc": _bool,
    "so-sndbuf": parse_size,
    "so-rcvbuf": parse_size,
    "so-tos": _integer(range(256)),
    "rcv-wnd": parse_size,
    "pub-wnd": parse_size,
    "nak-delay": parse_duration_ns,
    "max-resend": _integer(range(1, 257)),
    "stream-id": _integer(_INT32),
    "setup-limit": _integer(range(1, 1 << 16)),
    "untethered-window-limit-timeout": parse_duration_ns,
    "untethered-linger-timeout": parse_duration_ns,
    "untethered-resting-timeout": parse_duration_ns,
    "response-correlation-id": _response_correlation_id,
    "response-endpoint": parse_address,
    "media-rcv-ts-offset": _timestamp_offset,
    "channel-rcv-ts-offset": _timestamp_offset,
    "channel-snd-ts-offset": _timestamp_offset,
    "ats": _ANY_TEXT,
}
_NOT_IN_DESTINATIONS: Final = ("mtu", "rcv-wnd", "so-rcvbuf", "so-sndbuf", "so-tos", "response-correlation-id")


# --- the URI ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChannelUri:
    """A channel: media `udp` or `ipc`, parameters as text, and whether it spies on a publication.

    `parse` checks the value of every known key; `check_publication`, `check_subscription` and `check_destination` check
    what the channel is used for. `value(key)` is the parsed value of a key or None.
    """

    media: str
    params: Mapping[str, str] = field(default_factory=dict)
    is_spy: bool = False

    @classmethod
    def parse(cls, text: str) -> ChannelUri:
        """Raise ChannelError for anything outside the grammar and for bad values of known keys."""
        if len(text) > URI_LENGTH_MAX:
            raise ChannelError(
                f"channel of {len(text)} characters, at most {URI_LENGTH_MAX} are allowed: {text[:URI_LENGTH_MAX]!r}..."
            )
        is_spy = text.startswith(SPY_PREFIX)
        head, separator, query = text.removeprefix(SPY_PREFIX).partition("?")
        if head not in (PREFIX + UDP, PREFIX + IPC) or not text.isascii():
            raise ChannelError(f"channel {text!r} must start with aeron:udp or aeron:ipc and be ASCII")
        params: dict[str, str] = {}
        for part in query.split("|") if separator and query else ():
            key, equals, value = part.partition("=")
            if not key or not equals:
                raise ChannelError(f"channel {text!r} has {part!r} where key=value is allowed, separated by |")
            params[key] = value
        uri = cls(head.removeprefix(PREFIX), params, is_spy)
        uri._check_values()
        return uri

    def __str__(self) -> str:
        query = "|".join(f"{key}={value}" for key, value in self.params.items())
        return (SPY_PREFIX if self.is_spy else "") + PREFIX + self.media + ("?" + query if query else "")

    def with_params(self, **params: object) -> ChannelUri:
        """Return a copy with keys set (`term_id=3` sets `term-id`) or, when None, removed."""
        merged = dict(self.params)
        for name, value in params.items():
            key = name.replace("_", "-")
            if value is None:
                merged.pop(key, None)
            else:
                merged[key] = _as_text(value)
        uri = ChannelUri(self.media, merged, self.is_spy)
        uri._check_values()
        return uri

    def get(self, key: str, default: str | None = None) -> str | None:
        """Return the text of a key, or the default when the URI does not have it."""
        return self.params.get(key, default)

    def has(self, key: str) -> bool:
        return key in self.params

    # Typed access. The value was checked by `parse`, so the parser cannot fail here.

    def value(self, key: str) -> object | None:
        """Return the parsed value of a known key, or None when it is absent."""
        text = self.params.get(key)
        return None if text is None else KEYS[key](text)

    def integer(self, key: str, default: int) -> int:
        """Return the value of a key as an integer: sizes in bytes, durations in ns, ids and count as they are."""
        value = self.value(key)
        return value if isinstance(value, int) else default

    def boolean(self, key: str, default: bool) -> bool:
        text = self.params.get(key)
        return default if text is None else _bool(text)

    def address(self, key: str) -> Address | None:
        value = self.value(key)
        return value if isinstance(value, Address) else None

    @property
    def is_udp(self) -> bool:
        return self.media == UDP

    @property
    def is_ipc(self) -> bool:
        return self.media == IPC

    @property
    def endpoint(self) -> Address | None:
        return self.address("endpoint")

    @property
    def control(self) -> Address | None:
        return self.address("control")

    @property
    def control_mode(self) -> str | None:
        return self.params.get("control-mode")

    @property
    def is_multicast(self) -> bool:
        endpoint = self.endpoint
        return endpoint is not None and endpoint.is_multicast

    @property
    def session_id(self) -> int | None:
        """The session id; None when absent or given by tag."""
        value = self.value("session-id")
        return value if isinstance(value, int) else None

    @property
    def session_id_tag(self) -> int | None:
        """Returns the tag of `session-id=tag:<tag>`, or None when the session id is no tag."""
        value = self.value("session-id")
        return int(value[4:]) if isinstance(value, str) else None

    @property
    def channel_tag(self) -> int | None:
        tags = self.value("tags")
        return tags[0] if isinstance(tags, tuple) else None

    @property
    def entity_tag(self) -> int | None:
        tags = self.value("tags")
        return tags[1] if isinstance(tags, tuple) and len(tags) > 1 else None

    @property
    def start_position(self) -> StartPosition | None:
        """Where a publication starts; None when it starts at a random term."""
        if not self.has("init-term-id"):
            return None
        return StartPosition(*(self.integer(key, 0) for key in _START_KEYS))

    @property
    def flow_control(self) -> FlowControl | None:
        value = self.value("fc")
        return value if isinstance(value, FlowControl) else None

    # --- checks -------------------------------------------------------------------------------------------------------

    def check_publication(self) -> ChannelUri:
        """Return this URI if a publication can be added with it; raise ChannelError otherwise."""
        if self.is_spy:
            raise self._error("starts with aeron-spy: which only subscriptions may")
        self._check_start_position()
        if self.is_udp:
            self._check_udp()
            if self.has("control") and not self.has("endpoint") and self.control_mode is None:
                raise self._error("has control but neither endpoint nor control-mode")
            self._check_port("endpoint")
        return self

    def check_subscription(self) -> ChannelUri:
        """Return this URI if a subscription can be added with it; raise ChannelError otherwise."""
        if self.is_spy and not self.is_udp:
            raise self._error("spies on aeron:ipc, which is read without aeron-spy:")
        if self.is_udp:
            self._check_udp()
            if not self.is_spy:
                self._check_port("control")
        return self

    def check_destination(self, *, receive: bool = False) -> ChannelUri:
        """Return this URI if it can be a destination; raise ChannelError otherwise.

        A destination of a publication or (`receive`) of a subscription.
        """
        for key in _NOT_IN_DESTINATIONS:
            if self.has(key):
                raise self._error(f"has {key}, which a destination may not have")
        if self.control_mode == "response":
            raise self._error("has control-mode=response, which a destination may not have")
        if receive:
            return self.check_subscription()
        if self.is_spy or not self.is_udp:
            raise self._error("is not aeron:udp, which a destination of a publication must be: spies are invalid there")
        if not self.has("endpoint"):
            raise self._error("has no endpoint")
        self._check_port("endpoint")
        return self

    def _check_values(self) -> None:
        for key, text in self.params.items():
            try:
                KEYS.get(key, _ANY_TEXT)(text)
            except ValueError as error:
                raise self._error(f"has {key}={text}: invalid {key}, must be {error}") from None

    def _check_udp(self) -> None:
        mode = self.control_mode
        if mode == "dynamic" and not self.has("control"):
            raise self._error("has control-mode=dynamic but no control")
        if not (self.has("endpoint") or self.has("control") or self.has("tags") or mode in ("manual", "response")):
            raise self._error("needs endpoint, control, tags, or control-mode=manual or response")

    def _check_port(self, key: str) -> None:
        address = self.address(key)
        if address is not None and address.port == 0:
            raise self._error(f"has {key}={address}, its port must not be 0 here")

    def _check_start_position(self) -> None:
        given = [key for key in _START_KEYS if self.has(key)]
        if not given:
            return
        if len(given) < len(_START_KEYS):
            raise self._error(f"has {given[0]}; init-term-id, term-id and term-offset must come together")
        start = StartPosition(*(self.integer(key, 0) for key in _START_KEYS))
        terms = (start.term_id - start.initial_term_id) & 0xFFFFFFFF
        if terms >= 1 << 31:
            raise self._error(f"has term-id={start.term_id} before init-term-id={start.initial_term_id}")
        length = self.integer("term-length", 1 << 30)
        if start.term_offset > length:
            raise self._error(f"has term-offset={start.term_offset} beyond term-length={length}")

    def _error(self, what: str) -> ChannelError:
        return ChannelError(f"channel {str(self)!r} {what}")


def udp(**params: object) -> str:
    """Return the text of a UDP channel: `udp(endpoint="localhost:40123", session_id=7)`."""
    return str(ChannelUri(UDP).with_params(**params))


def ipc(**params: object) -> str:
    """Return the text of an IPC channel: `ipc(term_length="128k")`."""
    return str(ChannelUri(IPC).with_params(**params))


def spy(channel: str) -> str:
    """Return the text of the channel that spies on a publication of this node."""
    return str(ChannelUri.parse(SPY_PREFIX + channel.removeprefix(SPY_PREFIX)))


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
