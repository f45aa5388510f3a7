"""Connect requests at the leader: what one host may have waiting, and who may answer a challenge."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cluster.module.sequencer import SessionTable
from cluster.module.session_requests import WAITING_MIN, SessionRequests
from cluster.module.sessions import OpenSessions
from cluster.wire import codecs
from runtime.errors import RegistrationError
from tests.attacks.gate import ANSWER, PASSWORD, Gate
from tests.cluster.module.test_operators import Image, Publication
from tests.cluster.module.test_sessions import Term

LEADER = 2


class SlowDriver:
    """Makes publications when it is told to, as for names that take their time."""

    def __init__(self) -> None:
        self._ids = count(1)
        self.asked: dict[int, str] = {}
        self.is_slow = True
        self.fails = False
        self.is_connected = False
        self.made: list[Publication] = []

    def async_add_publication(self, channel: str, stream_id: int) -> int:
        registration_id = next(self._ids)
        self.asked[registration_id] = channel
        return registration_id

    def get(self, registration_id: int) -> Any:
        if self.fails:
            raise RegistrationError("unknown host", code=11)
        if self.is_slow:
            return None
        made: Any = Publication(self.asked[registration_id])
        made.registration_id, made.is_connected = registration_id, self.is_connected
        self.made.append(made)
        return made

    def invoke_driver(self) -> None:
        pass


class Leader:
    """A leader with room for few sessions."""

    def __init__(self, gate: Gate | None = None) -> None:
        self.driver = SlowDriver()
        self.term = Term(1_000_000_000, LEADER)
        self.refused: list[str] = []
        client, ids = cast(Any, self.driver), count(1 << 40)
        self.requests = SessionRequests(
            client,
            OpenSessions(client, SessionTable(), 10_000),
            cast(Any, gate or Gate()),
            session_timeout=10_000,
            sessions_max=2,
            message_bytes_max=lambda: 1000,
            on_rejected=self.refused.append,
            draw_session_id=lambda: next(ids),
        )

    def connect(self, image: Any, credentials: bytes = b"") -> None:
        request = SimpleNamespace(
            correlation_id=1,
            response_stream_id=102,
            version=codecs.CLIENT_PROTOCOL_VERSION,
            response_channel="aeron:udp?endpoint=some.name:4000",
            encoded_credentials=credentials,
        )
        self.requests.on_connect_request(request, image, self.term, LEADER, 0)

    def work(self, cluster_time: int = 1) -> None:
        self.requests.work(self.term, LEADER, cluster_time)


def image_of(host: str, port: int = 1) -> Any:
    image: Any = Image(f"{host}:{port}")
    return image


@pytest.mark.parametrize("end", ["no such name", "the stream is gone", "it is made"])
def test_requests_whose_names_are_looked_up_count_for_their_host(end: str) -> None:
    """They did not, so that one host that named slow names took the places of all others."""
    leader = Leader()
    stranger = image_of("10.0.0.66")
    for _ in range(3 * WAITING_MIN):
        leader.connect(stranger)
    assert len(leader.driver.asked) == WAITING_MIN
    assert len(leader.refused) == 2 * WAITING_MIN
    for _ in range(3 * WAITING_MIN):
        leader.connect(image_of("10.0.0.1"))
    assert len(leader.driver.asked) == 2 * WAITING_MIN, "as many as all hosts together may"

    leader.driver.is_slow, leader.driver.fails = False, end == "no such name"
    stranger.is_closed = end == "the stream is gone"
    leader.work()
    leader.driver.is_slow, leader.driver.fails = True, False
    before = len(leader.driver.asked)
    leader.connect(image_of("10.0.0.66", 2))
    assert len(leader.driver.asked) == before + (end != "it is made"), "what is over counts no more"


def test_only_the_stream_that_asked_for_a_session_answers_its_challenge() -> None:
    gate = Gate()
    leader = Leader(gate)
    client = image_of("10.0.0.1")
    leader.driver.is_slow, leader.driver.is_connected = False, True
    leader.connect(client, PASSWORD)
    leader.work()
    leader.work()
    (publication,) = leader.driver.made
    found = codecs.decode(publication.sent[-1])
    assert found is not None and found[0] is codecs.CHALLENGE
    response = SimpleNamespace(
        cluster_session_id=found[1].cluster_session_id, correlation_id=9, encoded_credentials=ANSWER
    )
    leader.requests.on_challenge_response(response, image_of("10.0.0.1", 2), 0)
    assert not gate.answered
    leader.requests.on_challenge_response(response, client, 0)
    assert gate.answered == {found[1].cluster_session_id}
