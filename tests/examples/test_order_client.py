"""The order client over a connection that loses, repeats and fails over: every request is applied once, in order."""

import random
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordo.matching.engine import MatchingCore
from ordo.matching.flow import OrderFlow
from ordo.matching.order_client import OrderClient
from ordo.matching.protocol import Answer, decode_answer
from ordo.runtime.errors import ClusterTimeoutError, ConfigurationError

TICK_NS = 1_000_000


class LossyConnection:
    """A cluster in memory: requests queue, are applied when polled, and answers may be lost.

    A failover drops what was not applied yet, as a leader that dies before its records commit.
    """

    def __init__(self, seed: int, *, loss: float, failover: float, refusal: float) -> None:
        self.draw = random.Random(seed)
        self.loss, self.failover, self.refusal = loss, failover, refusal
        self.core = MatchingCore()
        self.waiting: deque[bytes] = deque()
        self.now_ns = 0
        self.client: OrderClient | None = None

    def offer(self, payload: bytes) -> int:
        if self.draw.random() < self.refusal:
            return -2
        self.waiting.append(payload)
        return 1

    def poll(self, limit: int) -> int:
        assert self.client is not None
        self.now_ns += TICK_NS
        if self.draw.random() < self.failover:
            for _ in range(self.draw.randint(0, len(self.waiting))):
                self.waiting.pop()
            self.client.on_new_leader()
        count = min(self.draw.randint(0, 20), limit, len(self.waiting))
        for _ in range(count):
            answer = self.core.apply(self.waiting.popleft())
            if self.draw.random() >= self.loss:
                self.client.on_message(answer)
        return count

    def park(self, timeout_s: float) -> None:
        self.now_ns += round(timeout_s * 1e9)


def run(connection: LossyConnection, requests: list[bytes], window: int) -> tuple[OrderClient, list[Answer]]:
    answers: list[Answer] = []
    client = OrderClient(
        connection, lambda: connection.now_ns, lambda answer, _: answers.append(decode_answer(answer)), window=window,
        resend_after_ns=20 * TICK_NS,
    )  # fmt: skip
    connection.client = client
    client.run(requests)
    return client, answers


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from((0.0, 0.01, 0.2)), st.sampled_from((0.0, 0.02, 0.2)), st.integers(1, 64))
def test_every_request_is_applied_once_and_in_order(seed: int, loss: float, failover: float, window: int) -> None:
    requests = list(OrderFlow(seed=seed, count=300))
    undisturbed = MatchingCore()
    expected = [decode_answer(undisturbed.apply(request)) for request in requests]
    connection = LossyConnection(seed, loss=loss, failover=failover, refusal=0.1)
    client, answers = run(connection, requests, window)
    assert sorted(answers, key=lambda answer: answer.sequence) == expected
    assert connection.core.state_hash() == undisturbed.state_hash()
    assert client.pending_count == 0


def test_nothing_is_sent_again_without_a_reason() -> None:
    connection = LossyConnection(1, loss=0, failover=0, refusal=0)
    client, answers = run(connection, list(OrderFlow(seed=1, count=500)), 32)
    assert (client.resent_count, client.repeated_count, len(answers)) == (0, 0, 500)


def test_a_cluster_that_never_answers_is_given_up() -> None:
    connection = LossyConnection(1, loss=1, failover=0, refusal=0)
    with pytest.raises(ClusterTimeoutError, match="no answer for 30 s to 32 requests"):
        run(connection, list(OrderFlow(seed=1, count=500)), 32)


@pytest.mark.parametrize("window", [0, 1025])
def test_a_window_beyond_the_answers_kept_is_refused(window: int) -> None:
    with pytest.raises(ConfigurationError, match=f"window={window}: 1 to 1024"):
        OrderClient(LossyConnection(1, loss=0, failover=0, refusal=0), lambda: 0, lambda *_: None, window=window)
