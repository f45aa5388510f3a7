"""What a stream's channel asks for, over the driver's defaults: publication and subscription parameters."""

from __future__ import annotations

from typing import NamedTuple

from ordo.runtime.errors import ChannelError
from ordo.transport.driver.channels.settings import MediaDriverSettings
from ordo.transport.driver.flow.flow_control import FlowControl
from ordo.transport.uri import PROTOTYPE_CORRELATION_ID, ChannelUri

NO_RESPONSE = -1
SYSTEM_TOS = -1
"""The system chooses the byte of the IP header that `so-tos` sets."""
PROTOTYPE_TERM_LENGTH = 64 << 10
"""The term length of a response publication that will never be bound; it is made to learn its parameters (§9)."""


class PublicationParameters(NamedTuple):
    """Parameters of one publication; lengths in bytes. `initial_term_id` and `session_id` are None until drawn.

    `response_correlation_id` is NO_RESPONSE but in response channels (`transport/driver/conducting/responses.py`).
    """

    mtu: int
    term_length: int
    window_length: int
    session_id: int | None
    initial_term_id: int | None
    term_id: int
    term_offset: int
    linger_timeout_ns: int
    signal_eos: bool
    sparse: bool
    spies_simulate_connection: bool
    setup_limit: int
    """Set-ups that go to an address which has not answered any; 0: any number."""
    max_resend: int
    channel_tag: int | None
    entity_tag: int | None
    response_correlation_id: int
    is_response: bool
    sndbuf: int
    rcvbuf: int
    untethered_window_limit_timeout_ns: int
    untethered_linger_timeout_ns: int
    untethered_resting_timeout_ns: int

    def with_start(self, initial_term_id: int) -> PublicationParameters:
        """Return the same parameters, starting at the beginning of a randomly drawn term."""
        return self._replace(initial_term_id=initial_term_id, term_id=initial_term_id, term_offset=0)


class SubscriptionParameters(NamedTuple):
    """Parameters of one subscription.

    `session_id` None: any; `group` is true, false or infer; `group_tag` None: untagged.
    """

    session_id: int | None
    is_reliable: bool
    is_tethered: bool
    rejoins: bool
    sparse: bool
    group: str
    group_tag: int | None
    window_length: int
    is_cubic: bool
    nak_delay_ns: int
    rcvbuf: int
    sndbuf: int
    untethered_window_limit_timeout_ns: int
    untethered_linger_timeout_ns: int
    untethered_resting_timeout_ns: int


def publication_parameters(
    uri: ChannelUri, config: MediaDriverSettings, tagged: PublicationParameters | None
) -> PublicationParameters:
    """Read a checked URI of a publication, UDP or IPC. Raises ChannelError for values that do not fit together.

    `tagged` are those of the publication that `session-id=tag:` names: its session, MTU and term length go on.
    """
    mtu, term_length = config.mtu, config.term_length
    if uri.is_ipc:
        mtu, term_length = config.ipc_mtu, config.ipc_term_length
    if tagged is not None:
        mtu, term_length = tagged.mtu, tagged.term_length
    mtu, term_length = uri.integer("mtu", mtu), uri.integer("term-length", term_length)
    response_correlation_id = uri.integer("response-correlation-id", NO_RESPONSE)
    if response_correlation_id == PROTOTYPE_CORRELATION_ID:
        term_length = PROTOTYPE_TERM_LENGTH
    start = uri.start_position
    if start is not None and start.term_offset > term_length:
        raise ChannelError(f"channel {str(uri)!r} has term-offset={start.term_offset} beyond term-length={term_length}")
    if mtu > min(term_length // 8, 16 << 20):
        raise ChannelError(f"channel {str(uri)!r} has mtu={mtu}, at most an eighth of term-length={term_length}")
    sndbuf = uri.integer("so-sndbuf", config.socket_sndbuf)
    if uri.is_udp and 0 < sndbuf < mtu:
        raise ChannelError(f"channel {str(uri)!r} has mtu={mtu}, above so-sndbuf={sndbuf}: raise so-sndbuf")
    return PublicationParameters(
        mtu=mtu,
        term_length=term_length,
        window_length=_publication_window(uri, config, mtu, term_length),
        session_id=uri.session_id if tagged is None else tagged.session_id,
        initial_term_id=start.initial_term_id if start else None,
        term_id=start.term_id if start else 0,
        term_offset=start.term_offset if start else 0,
        linger_timeout_ns=uri.integer("linger", config.publication_linger_timeout_ns),
        signal_eos=uri.boolean("eos", True),
        sparse=uri.boolean("sparse", config.term_buffer_sparse),
        spies_simulate_connection=uri.boolean("ssc", config.spies_simulate_connection),
        setup_limit=uri.integer("setup-limit", 0),
        max_resend=uri.integer("max-resend", config.max_resend),
        channel_tag=uri.channel_tag,
        entity_tag=uri.entity_tag,
        response_correlation_id=response_correlation_id,
        is_response=uri.control_mode == "response",
        sndbuf=sndbuf,
        rcvbuf=uri.integer("so-rcvbuf", config.socket_rcvbuf),
        **_untethered(uri, config),
    )


def subscription_parameters(
    uri: ChannelUri, config: MediaDriverSettings, tagged: PublicationParameters | None
) -> SubscriptionParameters:
    """Read a checked URI of a subscription, UDP, IPC or spy. Raises ChannelError for values that do not fit together.

    `tagged` are those of the publication that `session-id=tag:` names.
    """
    tag = uri.value("gtag")
    window_length = uri.integer("rcv-wnd", config.receiver_window)
    rcvbuf = uri.integer("so-rcvbuf", config.socket_rcvbuf)
    if uri.is_udp and not uri.is_spy and 0 < rcvbuf < window_length:
        raise ChannelError(
            f"channel {str(uri)!r} has a receiver window of {window_length} bytes, above the socket's receive buffer "
            f"of {rcvbuf}: raise so-rcvbuf, or lower rcv-wnd"
        )
    return SubscriptionParameters(
        session_id=tagged.session_id if tagged else uri.session_id,
        is_reliable=uri.boolean("reliable", config.reliable_stream),
        is_tethered=uri.boolean("tether", config.tether_subscriptions),
        rejoins=uri.boolean("rejoin", config.rejoin_stream),
        sparse=uri.boolean("sparse", config.term_buffer_sparse),
        group=uri.get("group", config.receiver_group_consideration) or "infer",
        group_tag=tag if isinstance(tag, int) else config.receiver_group_tag,
        window_length=window_length,
        is_cubic=uri.get("cc", config.congestion_control) == "cubic",
        nak_delay_ns=max(uri.integer("nak-delay", config.nak_unicast_delay_ns), 1_000),
        rcvbuf=rcvbuf,
        sndbuf=uri.integer("so-sndbuf", config.socket_sndbuf),
        **_untethered(uri, config),
    )


def flow_control(uri: ChannelUri, config: MediaDriverSettings, has_group_semantics: bool) -> FlowControl:
    """Return the flow control strategy of a network publication's channel."""
    asked = uri.flow_control
    if not has_group_semantics:
        if asked is not None:
            raise ChannelError(
                f"channel {str(uri)!r} has fc={uri.get('fc')}, which is for multicast and multi-destination"
            )
        return FlowControl(
            "unicast",
            receiver_timeout_ns=config.flow_control_receiver_timeout_ns,
            retransmit_window_multiple=config.unicast_retransmit_window_multiple,
        )

    def given(name: str, default: int) -> int:
        value = getattr(asked, name, None)
        return default if value is None else int(value)

    return FlowControl(
        asked.strategy if asked else config.multicast_flow_control,
        receiver_timeout_ns=given("receiver_timeout_ns", config.flow_control_receiver_timeout_ns),
        group_tag=given("group_tag", config.flow_control_group_tag),
        group_min_size=given("group_size_min", config.flow_control_group_size_min),
        retransmit_window_multiple=given("retransmit_window_multiple", config.multicast_retransmit_window_multiple),
    )


def check_same(uri: ChannelUri, asked: PublicationParameters, existing: PublicationParameters, session_id: int) -> None:
    """Raise ChannelError when a shared publication is asked for with an explicit parameter it has not."""
    pairs = {
        "mtu": (asked.mtu, existing.mtu),
        "term-length": (asked.term_length, existing.term_length),
        "session-id": (asked.session_id, session_id),
        "init-term-id": (asked.initial_term_id, existing.initial_term_id),
        "term-id": (asked.term_id, existing.term_id),
        "term-offset": (asked.term_offset, existing.term_offset),
        "ssc": (asked.spies_simulate_connection, existing.spies_simulate_connection),
    }
    for key, (wanted, present) in pairs.items():
        if uri.has(key) and wanted != present:
            raise ChannelError(
                f"channel {str(uri)!r} has {key}={wanted}, the existing publication has {key}={present}: "
                "ask for the same or add an exclusive publication"
            )


def _publication_window(uri: ChannelUri, config: MediaDriverSettings, mtu: int, term_length: int) -> int:
    asked = uri.integer("pub-wnd", 0)
    if asked:
        if not mtu <= asked <= term_length // 2:
            raise ChannelError(f"channel {str(uri)!r} has pub-wnd={asked}, from mtu={mtu} to {term_length // 2}")
        return asked
    default = config.ipc_publication_window if uri.is_ipc else config.publication_window
    return min(default or term_length // 2, term_length // 2)


def _untethered(uri: ChannelUri, config: MediaDriverSettings) -> dict[str, int]:
    window_limit_ns = uri.integer("untethered-window-limit-timeout", config.untethered_window_limit_timeout_ns)
    linger_default_ns = window_limit_ns if config.untethered_linger_timeout_ns is None else config.untethered_linger_ns
    return {
        "untethered_window_limit_timeout_ns": window_limit_ns,
        "untethered_linger_timeout_ns": uri.integer("untethered-linger-timeout", linger_default_ns),
        "untethered_resting_timeout_ns": uri.integer(
            "untethered-resting-timeout", config.untethered_resting_timeout_ns
        ),
    }
