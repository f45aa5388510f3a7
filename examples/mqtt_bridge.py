"""A bridge between a broker for MQTT and a cluster, in two programs; needs `pip install paho-mqtt`.

    python -m examples.mqtt_bridge in  10.0.0.1:20000,10.0.0.2:20000,10.0.0.3:20000 broker:1883 orders/in/+
    python -m examples.mqtt_bridge out 10.0.0.1:20000,10.0.0.2:20000,10.0.0.3:20000 broker:1883 orders/out

`in` has the cluster execute what is published to topics of the broker, and acknowledges it to the broker afterwards.
The whole name of its topic, such as orders/in/4711, is the id of the request: a message that comes again is not
executed again. `out` publishes what is executed, in the order of the log, to a topic that ends with its number there.
Both may be killed and started again at any time; a second `in` for the same broker takes the place of the first. Name
and password for the broker are in MQTT_USER and MQTT_PASSWORD.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from queue import SimpleQueue

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion

from ordo import ClientSettings, ClusterClient, Consumer
from ordo.errors import RejectedError

AT_LEAST_ONCE = 1
TIMEOUT_S = 30.0
ID_BYTES_MAX = 64


def connect(broker: str, name: str, topics: str = "") -> tuple[Client, SimpleQueue[MQTTMessage | None]]:
    """Return a client of the broker, and what comes for it; None, when the connection is lost.

    The broker keeps the subscription of this name, and what comes meanwhile, while the client is away.
    """
    came: SimpleQueue[MQTTMessage | None] = SimpleQueue()
    client = Client(CallbackAPIVersion.VERSION2, client_id=name, clean_session=False, manual_ack=True)

    def on_connect(*_: object) -> None:
        if topics:
            client.subscribe(topics, AT_LEAST_ONCE)

    client.on_connect = on_connect
    client.on_message = lambda _, __, message: came.put(message)
    client.on_disconnect = lambda *_: came.put(None)
    if "MQTT_USER" in os.environ:
        client.username_pw_set(os.environ["MQTT_USER"], os.environ.get("MQTT_PASSWORD"))
    host, _, port = broker.rpartition(":")
    client.connect(host, int(port))
    client.loop_start()
    return client, came


def bring_in(endpoints: Sequence[str], broker: str, topics: str, settings: ClientSettings) -> None:
    """Have the cluster execute what is published, until the connection to the broker is lost."""
    client, came = connect(broker, "ordo-bridge-in", topics)
    with ClusterClient(endpoints, settings=settings) as cluster:
        while (message := came.get()) is not None:
            name = message.topic.encode()
            if len(name) <= ID_BYTES_MAX:
                try:
                    cluster.request(message.payload, id=name, timeout_s=TIMEOUT_S)
                except RejectedError as refusal:
                    print(f"{message.topic}: {refusal}", file=sys.stderr)
            else:
                print(f"{message.topic}: longer than an id, {ID_BYTES_MAX} bytes, so left out", file=sys.stderr)
            client.ack(message.mid, message.qos)  # not before: the broker keeps it until then


def bring_out(endpoints: Sequence[str], broker: str, topic: str, settings: ClientSettings) -> None:
    """Publish what is executed, until the connection to the broker is lost."""
    client, _ = connect(broker, "ordo-bridge-out")
    with Consumer(endpoints, "mqtt", settings=settings) as consumer:
        for entry in consumer:
            told = client.publish(f"{topic}/{entry.sequence}", entry.payload, AT_LEAST_ONCE)
            told.wait_for_publish(TIMEOUT_S)
            if not told.is_published():
                raise TimeoutError(f"the broker has not acknowledged number {entry.sequence} of the log")
            consumer.commit(wait=False)


if __name__ == "__main__":
    direction, endpoints, broker, topics, *egress = sys.argv[1:]
    settings = ClientSettings(egress_channel=f"aeron:udp?endpoint={egress[0] if egress else '127.0.0.1:0'}")
    bring = {"in": bring_in, "out": bring_out}[direction]
    bring(endpoints.split(","), broker, topics, settings)
