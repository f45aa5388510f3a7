#!/usr/bin/env bash
# NATS JetStream (nats-server 2.15.3) takes a message once within `duplicate_window` if the publisher names it
# (`Nats-Msg-Id`): a second one is acknowledged as a duplicate and not stored.
#
# The surprise: a server that starts knows the ids of the messages that the stream still has, and no others. So an id is
# forgotten at a restart if its message is gone by then: acknowledged in a work queue, deleted, purged, or pushed out by a
# limit such as `max_msgs_per_subject`. Before the restart all of these are known as duplicates, within the same window,
# so a test without a restart shows nothing. Three replicas do not help: an orderly restart of one server after the
# other, as for an update, is enough. The work that was done and acknowledged is the one that is done again.
#
# Seen with: nats-server 2.15.3, nats-py 2.16.0, Go 1.26, CPython 3.11, Linux x86-64; a window of 120 s, and all of it
# within some seconds. What became of a payment that is published again (`seq` of the stream; duplicate or not):
#   what became of the message   again, before a restart   again, after an orderly restart
#   still in the stream          seq 1, duplicate          seq 1, duplicate
#   acknowledged (work queue)    seq 1, duplicate          seq 2, stored again
#   deleted                      seq 1, duplicate          seq 2, stored again
#   purged                       seq 1, duplicate          seq 2, stored again
#   replaced by a later one      seq 1, duplicate          seq 3, stored again
#   acknowledged, 3 replicas     seq 1, duplicate          seq 2, stored again (each server restarted in turn)
#
# What follows: behind JetStream a consumer must know by itself what it has done. Ordo keeps the numbers of requests in the
# replicated state and in snapshots, whatever becomes of the log behind them.
set -euo pipefail
folder=$(mktemp -d)
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
GOBIN="$folder/bin" GOPATH="$folder/go" GOFLAGS=-mod=mod go install github.com/nats-io/nats-server/v2@v2.15.3 2>/dev/null
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check nats-py==2.16.0

cat >"$folder/seen.py" <<'PYTHON'
import asyncio
import logging
import socket
import subprocess
import sys
from pathlib import Path

import nats
from nats.errors import Error
from nats.js.api import RetentionPolicy, StreamConfig

FOLDER = Path(sys.argv[1])
logging.disable(logging.CRITICAL)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Servers:
    """One server, or a cluster of three; each can be restarted in an orderly way."""

    def __init__(self, name, count):
        self.ports, self.routes = ([free_port() for _ in range(count)] for _ in "pr")
        self.folders = [FOLDER / name / str(number) for number in range(count)]
        self.running = [self.start(number) for number in range(count)]

    def start(self, number):
        folder = self.folders[number]
        folder.mkdir(parents=True, exist_ok=True)
        words = [FOLDER / "bin" / "nats-server", "-a", "127.0.0.1", "-p", str(self.ports[number]), "-js"]
        words += ["-sd", folder, "-l", folder / "log", "-n", f"n{number}"]
        if len(self.ports) > 1:
            own, *routes = (f"nats://127.0.0.1:{port}" for port in (self.routes[number], *self.routes))
            words += ["--cluster_name", "c", "--cluster", own, "--routes", ",".join(routes)]
        return subprocess.Popen(words)

    def stop(self, number):
        self.running[number].terminate()
        self.running[number].wait()

    async def connect(self):
        addresses = [f"nats://127.0.0.1:{port}" for port in self.ports]
        return await until(lambda: nats.connect(addresses, max_reconnect_attempts=-1, reconnect_time_wait=0.1))


async def until(call):
    """Calls until that works, for a minute."""
    for _ in range(600):
        try:
            return await call()
        except (Error, OSError, AssertionError):
            await asyncio.sleep(0.1)
    raise TimeoutError


async def settled(stream):
    """Waits until the stream has a leader, and all its replicas have what it has."""

    async def look():
        await stream.account_info()
        cluster = (await stream.stream_info("S")).cluster
        assert cluster is None or cluster.leader and all(one.current for one in cluster.replicas or ())

    await until(look)


async def publish(stream, number="1"):
    said = await stream.publish("s", b"pay", headers={"Nats-Msg-Id": number})
    return said.seq, bool(said.duplicate)


async def remove(stream, how):
    if how.startswith("acknowledged"):
        consumer = await stream.pull_subscribe("s", "c")
        await (await consumer.fetch(1))[0].ack_sync()
    elif how == "deleted":
        await stream.delete_msg("S", 1)
    elif how == "purged":
        await stream.purge_stream("S")
    elif how == "replaced":
        await publish(stream, "2")


async def ask(how, count):
    servers = Servers(how.replace(" ", "-"), count)
    try:
        return await asyncio.wait_for(ask_servers(servers, how, count), 300)
    finally:
        for number in range(count):
            servers.stop(number)


async def ask_servers(servers, how, count):
    client = await servers.connect()
    stream = client.jetstream(timeout=10)
    retention = RetentionPolicy.WORK_QUEUE if how.startswith("acknowledged") else RetentionPolicy.LIMITS
    config = StreamConfig(name="S", subjects=["s"], retention=retention, duplicate_window=120, num_replicas=count)
    config.max_msgs_per_subject = 1 if how == "replaced" else -1
    await until(lambda: stream.add_stream(config))
    await settled(stream)
    assert await publish(stream) == (1, False)
    await remove(stream, how)
    before = await publish(stream)
    for number in range(count):
        servers.stop(number)
        servers.running[number] = servers.start(number)
        await settled(stream)
    after = await until(lambda: publish(stream))
    await client.close()
    return before, after


async def main():
    expected = {
        ("kept", 1): ((1, True), (1, True)),
        ("acknowledged", 1): ((1, True), (2, False)),
        ("deleted", 1): ((1, True), (2, False)),
        ("purged", 1): ((1, True), (2, False)),
        ("replaced", 1): ((1, True), (3, False)),
        ("acknowledged in three", 3): ((1, True), (2, False)),
    }
    seen = {case: await ask(*case) for case in expected}
    for (how, _), (before, after) in seen.items():
        print(f"{how:22} before a restart {before}, after it {after}")
    assert seen == expected


asyncio.run(main())
PYTHON
"$folder/venv/bin/python" "$folder/seen.py" "$folder" 2>"$folder/errors" || { tail -n 5 "$folder/errors"; exit 1; }
echo "as seen before: an id is forgotten at a restart once its message is gone"
