#!/usr/bin/env bash
# amqtt 0.12.1 (an MQTT broker in Python) keeps sessions and loses what they are for: a message of QoS 1 that was sent to a
# subscriber, which lost its connection before it acknowledged it, does not come again. The subscriber is told that its
# session is present (`session_present`), and gets what was published while it was away, so nothing looks lost. MQTT 3.1.1
# (section 4.4) has a server send such messages again, and aedes 1.2.0 (Node) does.
#
# A second surprise of amqtt: it keeps no session for a client without a user name, whatever `clean_session` says. It takes
# messages for that client with PUBACK and drops them. A third one, of aedes: what it sends again is not marked as a
# duplicate (DUP), as section 3.3.1.1 demands, so a subscriber that goes by DUP takes it for a new message.
#
# The surprise in practice: "at least once" ends at the first lost connection, and only for messages that were under way
# then, a few among many, so counts at the end of a day differ by very little.
#
# Seen with: amqtt 0.12.1, aedes 1.2.0, paho-mqtt 2.1.0 (`manual_ack`), CPython 3.11, Node 20, Linux x86-64. `one` was
# received and not acknowledged, `two` was published while the subscriber was away:
#   amqtt, anonymous      session present False, came again []
#   amqtt, with a user    session present True, came again [('two', 'dup=False')]
#   aedes, anonymous      session present True, came again [('one', 'dup=False'), ('two', 'dup=False')]
#
# What follows: behind such a broker a bridge into Ordo is no safer than its broker is. docs/BRIDGES.md says what amqtt
# keeps; its example knows a message that comes again by the name of its topic and not by DUP, and executes it once.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check amqtt==0.12.1 paho-mqtt==2.1.0
npm install --silent --no-fund --no-audit --prefix "$folder/node" aedes@1.2.0 >/dev/null

cat >"$folder/node/broker.mjs" <<'JAVASCRIPT'
import { createServer } from "node:net";
import { Aedes } from "aedes";

const broker = await Aedes.createBroker();
const server = createServer(broker.handle);
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
JAVASCRIPT

cat >"$folder/seen.py" <<'PYTHON'
import asyncio
import logging
import socket
import subprocess
import sys
import threading
import time
from importlib.metadata import version
from pathlib import Path

from amqtt.broker import Broker
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion
from pwdlib import PasswordHash
from pwdlib.hashers.argon2 import Argon2Hasher

FOLDER = Path(sys.argv[1])
USER = ("reader", "of this script")
logging.disable(logging.CRITICAL)


def connected(name, port, user, **options):
    client = Client(CallbackAPIVersion.VERSION2, client_id=name, **options)
    if user:
        client.username_pw_set(*user)
    client.connect("127.0.0.1", port)
    return client


class Subscriber:
    """Has a session that is kept, and acknowledges nothing."""

    def __init__(self, port, user):
        self.came, self.is_present = [], None
        self.ready, self.got = threading.Event(), threading.Event()
        self.client = connected("subscriber", port, user, clean_session=False, manual_ack=True)
        self.client.on_connect = self.subscribe
        self.client.on_subscribe = lambda *_: self.ready.set()
        self.client.on_message = self.note
        self.client.loop_start()
        assert self.ready.wait(20)

    def subscribe(self, client, _, flags, *rest):
        self.is_present = flags.session_present
        client.subscribe("orders", 1)

    def note(self, _, __, message):
        self.came.append((message.payload.decode(), f"dup={message.dup}"))
        self.got.set()

    def vanish(self):
        """Lose the connection, as a machine does that is switched off."""
        self.client.loop_stop()
        self.client.socket().shutdown(socket.SHUT_RDWR)
        self.client.socket().close()


def publish(port, user, payload):
    client = connected("publisher", port, user)
    client.loop_start()
    taken = client.publish("orders", payload, 1)
    taken.wait_for_publish(20)
    assert taken.is_published(), "the broker has acknowledged it"
    client.disconnect()
    client.loop_stop()


def follow(what, port, user=None):
    first = Subscriber(port, user)
    publish(port, user, "one")
    assert first.got.wait(20) and first.came == [("one", "dup=False")]
    first.vanish()
    time.sleep(2)  # the broker sees that it has gone
    publish(port, user, "two")
    again = Subscriber(port, user)
    time.sleep(5)  # for whatever is still to come
    print(f"{what:<21} session present {again.is_present}, came again {again.came}")
    again.vanish()


async def amqtt(what, plugins, user=None):
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    listeners = {"default": {"type": "tcp", "bind": f"127.0.0.1:{port}"}}
    broker = Broker({"listeners": listeners, "plugins": plugins})
    await broker.start()
    await asyncio.to_thread(follow, what, port, user)
    await broker.shutdown()


print(f"amqtt {version('amqtt')}, paho-mqtt {version('paho-mqtt')}")
asyncio.run(amqtt("amqtt, anonymous", {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}}))
passwords = FOLDER / "passwords"
passwords.write_text(f"{USER[0]}:{PasswordHash((Argon2Hasher(),)).hash(USER[1])}\n")
asyncio.run(amqtt("amqtt, with a user", {"amqtt.plugins.authentication.FileAuthPlugin": {"password_file": str(passwords)}}, USER))
with subprocess.Popen(["node", FOLDER / "node" / "broker.mjs"], stdout=subprocess.PIPE, text=True) as aedes:
    follow("aedes, anonymous", int(aedes.stdout.readline()))
    aedes.kill()
PYTHON

seen=$("$folder/venv/bin/python" "$folder/seen.py" "$folder")
echo "$seen"
expected="amqtt 0.12.1, paho-mqtt 2.1.0
amqtt, anonymous      session present False, came again []
amqtt, with a user    session present True, came again [('two', 'dup=False')]
aedes, anonymous      session present True, came again [('one', 'dup=False'), ('two', 'dup=False')]"
[[ $seen == "$expected" ]] || { echo "this has changed"; exit 1; }
