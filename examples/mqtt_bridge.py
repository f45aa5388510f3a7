"""A bridge between a broker for MQTT and a cluster, in two programs; needs `pip install paho-mqtt`.

    python -m examples.mqtt_bridge in  10.0.0.1:20000,10.0.0.2:20000,10.0.0.3:20000 broker:1883 orders/in/+
    python -m examples.mqtt_bridge out 10.0.0.1:20000,10.0.0.2:20000,10.0.0.3:20000 broker:1883 orders/out

`in` has the cluster execute what is published to topics of the broker, and acknowledges it to the broker afterwards.
The whole name of its topic, such as orders/in/4711, is the id of the request: a message that comes again is not
executed again. `out` publishes what is executed, in the order of the log, to a topic that ends with its number there.
Both may be killed and started again at any time; a second `in` for the same broker takes the place of the first. What
they cannot go on from ends them with status 1 and one line. Name and password for the broker are in MQTT_USER and
MQTT_PASSWORD.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from queue import SimpleQueue
from typing import Any

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode

from ordo import ClientSettings, ClusterClient, Consumer
from ordo.errors import ClusterError, OrdoError, RequestIdError, RequestOutcome

AT_LEAST_ONCE = 1
TIMEOUT_S = 30.0
LOOK_S = 1.0  # how often `out` looks whether the broker is there, while nothing is executed
ID_BYTES_MAX = 64


def connect(broker: str, name: str, topics: str = "") -> tuple[Client, SimpleQueue[MQTTMessage | str]]:
    """Return a client of the broker, and what comes for it; a text says why the connection is lost, which stays so.

    The broker keeps the subscription of this name, and what comes meanwhile, while the client is away.
    """
    came: SimpleQueue[MQTTMessage | str] = SimpleQueue()
    client = Client(CallbackAPIVersion.VERSION2, name, clean_session=False, manual_ack=True, reconnect_on_failure=False)

    def on_connect(_: object, __: object, ___: object, reason: Any, *____: object) -> None:
        came.put(f"the broker refuses: {reason}" if reason.is_failure else "")
        if topics and not reason.is_failure:
            client.subscribe(topics, AT_LEAST_ONCE)

    client.on_connect = on_connect
    client.on_message = lambda _, __, message: came.put(message)
    client.on_disconnect = lambda *told: came.put(f"the connection to the broker is lost: {told[3]}")
    if "MQTT_USER" in os.environ:
        client.username_pw_set(os.environ["MQTT_USER"], os.environ.get("MQTT_PASSWORD"))
    host, _, port = broker.rpartition(":")
    client.connect(host, int(port))
    client.loop_start()
    if refusal := came.get():
        raise ConnectionError(refusal)
    return client, came


def execute(cluster: ClusterClient, message: MQTTMessage) -> None:
    """Have the cluster execute a message. Raises OrdoError where that is unknown, or may succeed another time."""
    name = message.topic.encode()
    if len(name) > ID_BYTES_MAX:
        print(f"{message.topic}: longer than an id, {ID_BYTES_MAX} bytes, so left out", file=sys.stderr)
        return
    try:
        cluster.request(message.payload, id=name, timeout_s=TIMEOUT_S)
    except ClusterError as error:
        is_too_long = type(error) is ClusterError and error.outcome is RequestOutcome.NOT_EXECUTED
        if not (error.outcome is RequestOutcome.EXECUTED or is_too_long or isinstance(error, RequestIdError)):
            raise
        print(f"{message.topic}: {error}", file=sys.stderr)  # the same would become of it another time


def bring_in(endpoints: Sequence[str], broker: str, topics: str, settings: ClientSettings) -> None:
    """Have the cluster execute what is published, until the connection to the broker is lost."""
    client, came = connect(broker, "ordo-bridge-in", topics)
    with ClusterClient(endpoints, settings=settings) as cluster:
        while not isinstance(message := came.get(), str):
            execute(cluster, message)
            client.ack(message.mid, message.qos)  # not before: the broker keeps it until then
    raise ConnectionError(message)


def bring_out(endpoints: Sequence[str], broker: str, topic: str, settings: ClientSettings) -> None:
    """Publish what is executed, until the connection to the broker is lost."""
    client, came = connect(broker, "ordo-bridge-out")
    with Consumer(endpoints, "mqtt", settings=settings) as consumer:
        while came.empty():
            for entry in consumer.entries(timeout_s=LOOK_S):
                told = client.publish(f"{topic}/{entry.sequence}", entry.payload, AT_LEAST_ONCE)
                if told.rc == MQTTErrorCode.MQTT_ERR_SUCCESS:
                    told.wait_for_publish(TIMEOUT_S)
                if not told.is_published():
                    raise TimeoutError(f"the broker has not acknowledged number {entry.sequence} of the log")
                consumer.commit(wait=False)
    raise ConnectionError(came.get())


if __name__ == "__main__":
    direction, endpoints, broker, topics, *egress = sys.argv[1:]
    settings = ClientSettings(egress_channel=f"aeron:udp?endpoint={egress[0] if egress else '127.0.0.1:0'}")
    bring = {"in": bring_in, "out": bring_out}[direction]
    try:
        bring(endpoints.split(","), broker, topics, settings)
    except (OrdoError, OSError) as error:
        sys.exit(f"mqtt_bridge: {error}")
