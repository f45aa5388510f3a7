"""Response channels: a responder answers each requester alone, with no address of theirs configured (§9)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ordo.runtime.errors import ChannelError, RegistrationError
from ordo.transport.inspection.trace import KINDS, open_trace, read_lines
from tests.simulation.network import Faults
from tests.snippets import texts_of
from tests.transport.driver_world import Collector, Feeder, Node, S, World, transfer

ROOT = Path(__file__).parents[2]
SERVER, CLIENT, OTHER = "10.0.0.1", "10.0.0.2", "10.0.0.3"
REQUESTS = f"aeron:udp?endpoint={SERVER}:4000"
RESPONSES = f"aeron:udp?control-mode=response|control={SERVER}:4001"
SETUP, RSP_SETUP, DATA = 5, 11, 1
REQUEST_STREAM, RESPONSE_STREAM = 10, 11


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    errors = [error for node in made.nodes for error in node.errors]
    assert [error for error in errors if not isinstance(error, ChannelError)] == []
    made.close()


class Requester:
    def __init__(self, node: Node) -> None:
        self.node = node
        self.responses = Collector(node.client.add_subscription(RESPONSES, RESPONSE_STREAM))
        channel = f"{REQUESTS}|response-correlation-id={self.responses.subscription.registration_id}"
        self.requests = node.client.add_exclusive_publication(channel, REQUEST_STREAM)


class Responder:
    """Answers the image of each requester on a publication of its own."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.requests = Collector(node.client.add_subscription(REQUESTS, REQUEST_STREAM))
        self.publications: dict[int, Any] = {}

    def attend(self) -> bool:
        """Adds what is missing; whether every publication that there is was connected."""
        for image in self.requests.subscription.images:
            if image.session_id not in self.publications:
                channel = f"{RESPONSES}|response-correlation-id={image.correlation_id}"
                self.publications[image.session_id] = self.node.client.add_exclusive_publication(
                    channel, RESPONSE_STREAM
                )
        return bool(self.publications) and all(one.is_connected for one in self.publications.values())


def test_the_documented_way(world: World) -> None:
    section = (ROOT / "docs" / "DRIVER.md").read_text().split("## Response channels")[1]
    ask, answer = texts_of(section, "python")[:2]
    server, client = world.node(SERVER).client, world.node(CLIENT).client
    names: dict[str, Any] = {"server": server, "client": client, "answers": {}}
    requests = server.add_subscription(REQUESTS, REQUEST_STREAM)
    exec(ask, names)
    world.until(lambda: requests.images)
    session_id = names["requests"].session_id
    names["requests"] = requests
    exec(answer, names)
    world.until(lambda: names["answers"][session_id].is_connected and names["responses"].images)


def test_each_requester_hears_its_own_responses_only(world: World) -> None:
    responder = Responder(world.node(SERVER))
    requesters = [Requester(world.node(CLIENT)), Requester(world.node(OTHER))]
    world.until(lambda: responder.attend() and len(responder.publications) == 2)
    for index, requester in enumerate(requesters):
        feeder = Feeder(responder.publications[requester.requests.session_id], 300, first=index * 1000)
        transfer(world, feeder, [requester.responses])
        assert requester.responses.messages == feeder.messages
    feeder = Feeder(requesters[0].requests, 200)
    transfer(world, feeder, [responder.requests])
    assert responder.requests.messages == feeder.messages


def test_a_trace_shows_which_response_is_set_up(world: World) -> None:
    responder, client = Responder(world.node(SERVER)), world.node(CLIENT)
    with open_trace(client.memory, f"/sim/{CLIENT}", world.clock, KINDS["frames-in"]) as log:
        requester = Requester(client)
        world.until(responder.attend)
        lines = [line for line in read_lines(log) if " RSP_SETUP " in line]
    publication = responder.publications[requester.requests.session_id]
    wanted = (
        f"in {SERVER}:4000 RSP_SETUP length_bytes=20 frame_length=20 flags=00000000 "
        f"session_id={requester.requests.session_id} stream_id={REQUEST_STREAM} "
        f"response_session_id={publication.session_id}"
    )
    assert lines and all(line.endswith(wanted) for line in lines)


def test_two_requesters_of_one_driver_share_a_socket_and_nothing_else(world: World) -> None:
    responder = Responder(world.node(SERVER))
    node = world.node(CLIENT)
    requesters = [Requester(node), Requester(node)]
    world.until(lambda: responder.attend() and len(responder.publications) == 2)
    for index, requester in enumerate(requesters):
        feeder = Feeder(responder.publications[requester.requests.session_id], 100, first=index * 1000)
        transfer(world, feeder, [requester.responses])
        assert requester.responses.messages == feeder.messages


def test_nothing_is_sent_before_the_requester_was_heard(world: World) -> None:
    server = world.node(SERVER)
    responder = Responder(server)
    publication = world.node(CLIENT).client.add_exclusive_publication(REQUESTS, REQUEST_STREAM)
    world.until(lambda: responder.requests.subscription.images)
    assert not publication.is_closed
    channel = f"{RESPONSES}|response-correlation-id=prototype"
    prototype = server.client.add_exclusive_publication(channel, RESPONSE_STREAM)
    assert prototype.term_length == 64 << 10
    world.packets.clear()
    world.run(3 * S)
    assert not [packet for packet in world.packets if packet[1] == (SERVER, 4001)]
    assert not prototype.is_connected
    assert world.frames(RSP_SETUP) == []


def test_the_responder_repeats_itself_only_until_it_is_heard(world: World) -> None:
    responder = Responder(world.node(SERVER))
    Requester(world.node(CLIENT))
    world.until(responder.attend)
    world.run(S)
    assert all(frame[5] & 0x80 for frame in world.frames(SETUP) if frame[16:20] == REQUEST_STREAM.to_bytes(4, "little"))
    world.packets.clear()
    world.run(3 * S)
    assert world.frames(RSP_SETUP) == []


def test_responses_come_through_loss_and_reordering() -> None:
    world = World(seed=7, faults=Faults(loss=0.1, reordering=0.1, duplication=0.05))
    responder = Responder(world.node(SERVER))
    requester = Requester(world.node(CLIENT))
    world.until(responder.attend, 30 * S)
    feeder = Feeder(responder.publications[requester.requests.session_id], 2000)
    transfer(world, feeder, [requester.responses])
    assert requester.responses.messages == feeder.messages
    world.close()


def test_a_responder_that_comes_back_is_heard_on_its_new_session(world: World) -> None:
    server = world.node(SERVER)
    responder = Responder(server)
    requester = Requester(world.node(CLIENT))
    world.until(responder.attend)
    first = next(iter(responder.publications.values())).session_id
    server.crash()
    world.until(lambda: not requester.responses.subscription.images, 30 * S)
    node = world.node(SERVER)
    node.client.add_exclusive_publication(f"aeron:udp?endpoint={OTHER}:4000", 1)  # it takes the session of before
    again = Responder(node)
    world.until(again.attend, 60 * S)
    publication = again.publications[requester.requests.session_id]
    assert publication.session_id != first
    feeder = Feeder(publication, 50)
    transfer(world, feeder, [requester.responses])
    assert requester.responses.messages[-50:] == feeder.messages


def test_a_stranger_that_knows_the_session_does_not_redirect_a_connected_response(world: World) -> None:
    responder = Responder(world.node(SERVER))
    requester = Requester(world.node(CLIENT))
    world.until(responder.attend)
    publication = responder.publications[requester.requests.session_id]
    world.network.host(OTHER)
    elicit = bytearray(36)
    elicit[0], elicit[5], elicit[6] = 36, 0x80, 3
    elicit[8:12] = publication.session_id.to_bytes(4, "little", signed=True)
    elicit[12:16] = RESPONSE_STREAM.to_bytes(4, "little")
    world.network.send(OTHER, (OTHER, 5000), (SERVER, 4001), bytes(elicit))
    world.packets.clear()
    feeder = Feeder(publication, 100)
    transfer(world, feeder, [requester.responses])
    assert requester.responses.messages == feeder.messages
    assert not [packet for packet in world.packets if packet[2] == (OTHER, 5000)]


@pytest.mark.parametrize(
    ("channel", "complaint"),
    [
        (RESPONSES, "no response-correlation-id"),
        (f"{RESPONSES}|response-correlation-id=12345", "image.correlationId=12345 not found"),
        (f"{REQUESTS}|response-correlation-id=12345", "unable to find response subscription"),
        (f"{REQUESTS}|response-correlation-id=-2", "must be a number greater than or equal to -1, or 'prototype'"),
        ("aeron:ipc?response-correlation-id=12345", "unable to find response subscription"),
    ],
)
def test_what_cannot_be_bound_is_refused_in_one_line(world: World, channel: str, complaint: str) -> None:
    with pytest.raises(RegistrationError, match=complaint):
        world.node(SERVER).client.add_publication(channel, RESPONSE_STREAM)


def test_an_image_that_asked_for_no_response_gets_none(world: World) -> None:
    server = world.node(SERVER)
    responder = Responder(server)
    world.node(CLIENT).client.add_exclusive_publication(REQUESTS, REQUEST_STREAM)
    world.until(lambda: responder.requests.subscription.images)
    with pytest.raises(RegistrationError, match="did not request a response channel"):
        responder.attend()


def test_a_response_subscription_names_whom_it_asks(world: World) -> None:
    with pytest.raises(RegistrationError, match="no control"):
        world.node(CLIENT).client.add_subscription("aeron:udp?control-mode=response", RESPONSE_STREAM)


def test_a_socket_is_of_responses_or_of_something_else(world: World) -> None:
    node = world.node(CLIENT)
    node.client.add_subscription(RESPONSES, RESPONSE_STREAM)
    with pytest.raises(RegistrationError, match="isResponse=false existingChannel="):
        node.client.add_subscription(f"aeron:udp?control={SERVER}:4001", RESPONSE_STREAM)


# --- over shared memory -----------------------------------------------------------------------------------------------

IPC_RESPONSES = "aeron:ipc?control-mode=response"


def test_each_requester_of_a_driver_hears_its_own_responses_only_over_ipc(world: World) -> None:
    node = world.node(SERVER)
    others = node.client.add_subscription("aeron:ipc", RESPONSE_STREAM)
    requests = Collector(node.client.add_subscription("aeron:ipc", REQUEST_STREAM))
    subscriptions = [node.client.add_subscription(IPC_RESPONSES, RESPONSE_STREAM) for _ in range(2)]
    asking = [
        node.client.add_publication(f"aeron:ipc?response-correlation-id={one.registration_id}", REQUEST_STREAM)
        for one in subscriptions
    ]
    assert asking[0].session_id != asking[1].session_id
    world.until(lambda: len(requests.subscription.images) == 2)
    answers = {}
    for image in requests.subscription.images:
        channel = f"{IPC_RESPONSES}|response-correlation-id={image.correlation_id}"
        answers[image.session_id] = node.client.add_exclusive_publication(channel, RESPONSE_STREAM)
    world.until(lambda: [one.image_count for one in subscriptions] == [1, 1])
    for index, (subscription, publication) in enumerate(zip(subscriptions, asking, strict=True)):
        feeder = Feeder(answers[publication.session_id], 100, first=index * 1000)
        collector = Collector(subscription)
        transfer(world, feeder, [collector])
        assert collector.messages == feeder.messages
    assert others.image_count == 0, "an ordinary subscription hears no answers"


def test_responses_over_ipc_that_name_nobody_are_refused(world: World) -> None:
    node = world.node(SERVER)
    plain = node.client.add_publication("aeron:ipc", REQUEST_STREAM)
    udp = node.client.add_subscription(RESPONSES, RESPONSE_STREAM)
    refused = {
        IPC_RESPONSES: "no response-correlation-id",
        f"{IPC_RESPONSES}|response-correlation-id=4711": "image.correlationId=4711 not found in aeron:ipc",
        f"{IPC_RESPONSES}|response-correlation-id={plain.registration_id}": "did not request a response channel",
        "aeron:ipc?response-correlation-id=4711": "unable to find response subscription",
        f"aeron:ipc?response-correlation-id={udp.registration_id}": "unable to find response subscription",
    }
    for channel, text in refused.items():
        with pytest.raises(RegistrationError, match=text):
            node.client.add_exclusive_publication(channel, RESPONSE_STREAM)
