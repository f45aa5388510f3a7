"""UDP channels as sockets: addresses, roles, and which channels are the same (transport-wire.md §4.1, §11)."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from ordo.runtime.errors import ChannelError, TransportError
from ordo.runtime.native.clock import Clock
from ordo.transport.driver.frames.timestamps import FrameStamper
from ordo.transport.udp import pack_address
from ordo.transport.uri import INTERFACE, Address, ChannelUri

SocketName = tuple[str, int]
_UNIQUE = count(1)
_UNSUPPORTED_KEYS = ("ats",)


class ResolutionPending(TransportError):
    """The error while a name of the channel is being looked up.

    The same command works, or fails for good, a moment later.
    """


@dataclass(frozen=True)
class UdpChannelSpec:
    """A UDP channel with its names resolved.

    `endpoint` and `control` are (numeric host, port) or None; `interface` is a numeric address or None, and
    `interface_port` the port that the socket gets there, 0 for any; `canonical` is equal for channels that share a
    socket; `tag` is the channel tag or None; `mode` is single, manual, dynamic or response.
    """

    uri: ChannelUri
    text: str
    endpoint: SocketName | None
    control: SocketName | None
    interface: str | None
    interface_port: int
    mode: str
    canonical: str
    tag: int | None

    @property
    def is_multicast(self) -> bool:
        return self.endpoint is not None and ipaddress.ip_address(self.endpoint[0].split("%")[0]).is_multicast

    @property
    def is_multi_destination(self) -> bool:
        return self.mode in ("manual", "dynamic")

    @property
    def is_response(self) -> bool:
        """Whether this is one end of a response channel, whose peer is known only when the other end has been heard."""
        return self.mode == "response"

    @property
    def has_group_semantics(self) -> bool:
        return self.is_multicast or self.is_multi_destination

    @property
    def control_group(self) -> SocketName:
        """The address for status messages of a multicast stream: the data group's last byte + 1, same port."""
        assert self.endpoint is not None
        address = ipaddress.ip_address(self.endpoint[0].split("%")[0])
        return str(address + 1), self.endpoint[1]

    @property
    def wildcard(self) -> str:
        """The wildcard address of the channel's family."""
        name = self.endpoint or self.control or (self.interface or "0.0.0.0", 0)
        return "::" if ":" in name[0] else "0.0.0.0"

    def matches(self, other: UdpChannelSpec) -> bool:
        """Return whether both channels mean the same socket: by channel tag, otherwise by canonical form."""
        if self.tag is not None and self.tag == other.tag:
            return True
        return self.canonical == other.canonical


def refuse_unsupported(uri: ChannelUri) -> None:
    """Raise ChannelError for options this driver has not."""
    for key in _UNSUPPORTED_KEYS:
        if uri.has(key) and uri.get(key) != "-1":
            raise ChannelError(f"channel {str(uri)!r} has {key}, which this driver does not support; leave it out")
    if uri.has("response-correlation-id") and uri.is_spy:
        raise ChannelError(f"channel {str(uri)!r} has response-correlation-id, which a spy may not have")


def check_shared(uri: ChannelUri, existing: ChannelUri, defaults: Mapping[str, int], *stamped: str) -> None:
    """Raise ChannelError if a channel asks for another socket than the one that it would share.

    `defaults` are the lengths of buffers where a channel says nothing. `stamped` are the keys of times that are
    written into its frames: they must be the same even where nothing is asked for, since they would be written into
    any channel's messages.
    """
    if uri.channel_tag is None and (uri.control_mode == "response") != (existing.control_mode == "response"):
        raise ChannelError(
            f"option conflicts with existing subscription: isResponse={str(uri.control_mode == 'response').lower()} "
            f"existingChannel={existing} channel={uri}: both or neither must have control-mode=response on one socket"
        )
    for key in ("so-sndbuf", "so-rcvbuf", "so-tos", *stamped):
        wanted, present = (defaults.get(key) if one.value(key) is None else one.value(key) for one in (uri, existing))
        if (uri.has(key) or key in stamped) and wanted != present:
            raise ChannelError(
                f"channel {str(uri)!r} has {key}={uri.get(key, 'default')}, option conflicts with its socket's "
                f"{key}={existing.get(key, 'default')}: ask for the same"
            )


def check_same_socket(spec: UdpChannelSpec, existing: UdpChannelSpec) -> None:
    """Raise ChannelError if a channel has another's tag, and its other parameters do not fit that socket.

    What is written alike fits, though a name may have another address by now; so does another name of an address.
    """
    pairs = {
        "control-mode": (spec.uri.control_mode, existing.uri.control_mode),
        "endpoint": (spec.endpoint, existing.endpoint),
        "control": (spec.control, existing.control),
    }
    for key, (wanted, present) in pairs.items():
        if spec.uri.has(key) and spec.uri.get(key) != existing.uri.get(key) and wanted != present:
            raise ChannelError(
                f"channel {str(spec.uri)!r} has mismatched endpoint or control: {key}={spec.uri.get(key)}, but "
                f"{str(existing.uri)!r} has its tag: ask for the same, leave it out, or choose another tag"
            )


def stamper_of(uri: ChannelUri, key: str, clock: Clock) -> FrameStamper | None:
    """Return the timestamper of a channel's frames, if the key asks for one."""
    offset = uri.value(key)
    return FrameStamper(offset, clock) if isinstance(offset, int) else None


def parse_udp(uri: ChannelUri, network: Any, text: str = "") -> UdpChannelSpec:
    """Resolve a checked `aeron:udp` URI.

    Raises ChannelError or TransportError (unknown host) in one line, ResolutionPending while a name is looked up.
    """
    refuse_unsupported(uri)
    endpoint = _resolve(uri.endpoint, network)
    control = _resolve(uri.control, network)
    interface, interface_port = _resolve_interface(uri.get("interface"), network)
    mode = uri.control_mode or "single"
    spec = UdpChannelSpec(
        uri=uri,
        text=text or str(uri),
        endpoint=endpoint,
        control=control,
        interface=interface,
        interface_port=interface_port,
        mode=mode,
        canonical=_canonical(uri),
        tag=uri.channel_tag,
    )
    if spec.is_multicast:
        _check_group(spec)
    return spec


def packed(name: SocketName | None) -> bytes:
    """Return the address as the kernel packs it (sockaddr), b"" for None."""
    return pack_address(*name) if name is not None else b""


def _resolve(address: Address | None, network: Any) -> SocketName | None:
    if address is None:
        return None
    if address.is_numeric:
        return address.host, address.port
    found = network.lookup(address.host)
    if found is None:
        raise ResolutionPending(f"host={address.host!r} is being resolved")
    return found, address.port


def _resolve_interface(text: str | None, network: Any) -> tuple[str | None, int]:
    """Return the numeric address of an `interface` parameter, or None, and its port, or 0."""
    if not text:
        return None, 0
    parts = INTERFACE.fullmatch(text)
    assert parts is not None, "the URI's check lets nothing else through"
    port = int(parts["port"] or parts["named_port"] or 0)
    host = Address(parts["host"] or "", port)
    if not parts["host"] or host.is_numeric:
        return network.interface_address(text), port
    found = _resolve(host, network)
    assert found is not None
    address = f"[{found[0]}]" if ":" in found[0] else found[0]
    return network.interface_address(address + (parts["prefix"] or "")), port


def is_name(address: Address | None) -> bool:
    """Return whether the host is a name, which may resolve to another address later."""
    return address is not None and not address.is_numeric


def _canonical(uri: ChannelUri) -> str:
    local = uri.get("control") or uri.get("interface") or ""
    remote = uri.get("endpoint") or ""
    text = f"UDP-{local}-{remote}"
    endpoint, control = uri.endpoint, uri.control
    anonymous = endpoint is None and (control is None or control.port == 0)
    if anonymous or (endpoint is not None and endpoint.port == 0):
        text += f"#{uri.channel_tag}" if uri.channel_tag is not None else f"-{next(_UNIQUE)}"
    return text


def _check_group(spec: UdpChannelSpec) -> None:
    assert spec.endpoint is not None
    if ipaddress.ip_address(spec.endpoint[0].split("%")[0]).packed[-1] % 2 == 0:
        raise ChannelError(
            f"channel {spec.text!r} has the multicast address {spec.endpoint[0]}: its last byte must be odd, the even "
            "one above it carries the status messages"
        )
