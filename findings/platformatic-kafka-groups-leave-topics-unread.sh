#!/usr/bin/env bash
# Members of a Kafka consumer group tell what they subscribe to, and the one that came first, the leader, says who
# reads what. The broker only hands this on. @platformatic/kafka 1.35.0 (JavaScript) offers the strategy `roundrobin`,
# which librdkafka, kafka-python and aiokafka offer as well with their defaults, so all can be in one group.
#
# The surprise: such a group settles, its members send heartbeats, and nobody reads a topic that a member asked for.
# - Where @platformatic/kafka leads, it gives out the topics of its own subscription alone, whatever others ask for.
#   While an update adds a topic, the old process leads, and as long as it is there nobody reads the new topic.
# - Where it joins, it says that its subscription is of version 1 and writes the fields of version 0. As leader
#   librdkafka (confluent-kafka) cannot read that and gives the member nothing, without a word to the application;
#   kafka-python raises struct.error, so that the process that was there before ends. franz-go and aiokafka take it.
# Alone, or among its like with the same topics, as in most tests, it is right. Where topics have one partition each,
# as with Ordo, a topic that is given to nobody has no other reader.
#
# Seen with: @platformatic/kafka 1.35.0 on Node 20, confluent-kafka 2.16.1 (librdkafka), kafka-python 3.0.12, aiokafka
# 0.14.0, CPython 3.11, franz-go 1.22.3, with kfake of 2026-09-18 as the broker, Go 1.26; topics of one partition. The
# first member reads orders, the second orders and trades; trades is read by:
#   first          second             read by
#   platformatic   platformatic       nobody
#   platformatic   librdkafka         nobody
#   platformatic   kafka-python       nobody
#   platformatic   aiokafka           nobody
#   platformatic   franz-go           nobody
#   librdkafka     platformatic       nobody
#   kafka-python   platformatic       the first has ended
#   aiokafka       platformatic       second
#   franz-go       platformatic       second
#   librdkafka     platformatic, v0   second
#   kafka-python   platformatic, v0   second
#   librdkafka     kafka-python       second
#
# What follows: give each set of topics a group of its own, and have members of one kind alone in it. In a group with
# others, `protocols: [{ name: 'roundrobin', version: 0 }]` (v0 above) lets them read what @platformatic/kafka
# subscribes to; which topics it gives out when it leads does not change.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit @platformatic/kafka@1.35.0
python3 -m venv venv
libraries=(confluent-kafka==2.16.1 kafka-python==3.0.12 aiokafka==0.14.0)
venv/bin/python -m pip install -q --disable-pip-version-check "${libraries[@]}"

cat >member.mjs <<'JS'
import { Consumer, stringDeserializers } from "@platformatic/kafka";

const [, , version, address, groupId, ...topics] = process.argv;
const consumer = new Consumer({
  groupId, clientId: "member", bootstrapBrokers: [address], deserializers: stringDeserializers, heartbeatInterval: 200,
  ...(version === "" ? {} : { protocols: [{ name: "roundrobin", version: Number(version) }] }),
});
const stream = await consumer.consume({ topics, mode: "committed", fallbackMode: "earliest", maxWaitTime: 200 });
stream.on("data", (message) => console.log(message.value));
JS
cat >member.py <<'PYTHON'
import asyncio
import sys

from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer
from kafka import KafkaConsumer

library, address, group, *topics = sys.argv[1:]


async def read_aiokafka():
    consumer = AIOKafkaConsumer(
        *topics, bootstrap_servers=address, group_id=group, auto_offset_reset="earliest", heartbeat_interval_ms=200
    )
    await consumer.start()
    async for message in consumer:
        print(message.value.decode(), flush=True)


if library == "librdkafka":
    settings = {"bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "heartbeat.interval.ms": 200})
    consumer.subscribe(topics)
    while True:
        if (message := consumer.poll(0.2)) is not None and message.error() is None:
            print(message.value().decode(), flush=True)
elif library == "aiokafka":
    asyncio.run(read_aiokafka())
else:
    for message in KafkaConsumer(
        *topics, bootstrap_servers=address, group_id=group, auto_offset_reset="earliest", heartbeat_interval_ms=200
    ):
        print(message.value.decode(), flush=True)
PYTHON
cat >go.mod <<'GO'
module ask

go 1.26

require (
	github.com/twmb/franz-go v1.22.3
	github.com/twmb/franz-go/pkg/kfake v0.0.0-20260918054303-01f206a7e32c
	github.com/twmb/franz-go/pkg/kmsg v1.15.1
)
GO
cat >ask.go <<'GO'
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var background = context.Background()

var commands = map[string][]string{
	"platformatic":     {"node", "member.mjs", ""},
	"platformatic, v0": {"node", "member.mjs", "0"},
	"librdkafka":       {"venv/bin/python", "member.py", "librdkafka"},
	"kafka-python":     {"venv/bin/python", "member.py", "kafka-python"},
	"aiokafka":         {"venv/bin/python", "member.py", "aiokafka"},
	"franz-go":         {"./ask", "member"},
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// read is a member of a group that prints what it reads.
func read(address, group string, topics []string) {
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topics...),
		kgo.Balancers(kgo.RoundRobinBalancer()), kgo.HeartbeatInterval(200*time.Millisecond))
	must(err)
	for {
		client.PollFetches(background).EachRecord(func(record *kgo.Record) { fmt.Println(string(record.Value)) })
	}
}

// start runs a member in a process: true comes out for each record of trades, and nothing more when it has ended.
func start(library, address, group string, topics ...string) (*exec.Cmd, chan bool) {
	words := append(append([]string{}, commands[library]...), address, group)
	command := exec.Command(words[0], append(words[1:], topics...)...)
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	must(err)
	must(command.Start())
	trades := make(chan bool, 100)
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if lines.Text() == "trades" {
				trades <- true
			}
		}
		close(trades)
	}()
	return command, trades
}

func settle(client *kgo.Client, group string, count int) {
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		request := kmsg.NewPtrDescribeGroupsRequest()
		request.Groups = []string{group}
		response, err := request.RequestWith(background, client)
		if err == nil && response.Groups[0].State == "Stable" && len(response.Groups[0].Members) == count {
			return
		}
	}
}

func ask(client *kgo.Client, address, first, second string) string {
	group := strings.NewReplacer(" ", "", ",", "").Replace(first + "-" + second)
	one, readByOne := start(first, address, group, "orders")
	settle(client, group, 1)
	two, readByTwo := start(second, address, group, "orders", "trades")
	settle(client, group, 2)
	defer func() {
		for _, command := range []*exec.Cmd{one, two} {
			_ = command.Process.Kill()
			_ = command.Wait()
		}
	}()
	select {
	case is := <-readByOne:
		if !is {
			return "the first has ended"
		}
		return "first"
	case is := <-readByTwo:
		if !is {
			return "the second has ended"
		}
		return "second"
	case <-time.After(10 * time.Second):
		return "nobody"
	}
}

func main() {
	if len(os.Args) > 1 {
		read(os.Args[2], os.Args[3], os.Args[4:])
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders", "trades"))
	must(err)
	defer cluster.Close()
	address := cluster.ListenAddrs()[0]
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	must(err)
	for _, topic := range []string{"orders", "trades"} {
		must(client.ProduceSync(background, &kgo.Record{Topic: topic, Value: []byte(topic)}).FirstErr())
	}
	pairs := [][2]string{
		{"platformatic", "platformatic"}, {"platformatic", "librdkafka"}, {"platformatic", "kafka-python"},
		{"platformatic", "aiokafka"}, {"platformatic", "franz-go"}, {"librdkafka", "platformatic"},
		{"kafka-python", "platformatic"}, {"aiokafka", "platformatic"}, {"franz-go", "platformatic"},
		{"librdkafka", "platformatic, v0"}, {"kafka-python", "platformatic, v0"}, {"librdkafka", "kafka-python"},
	}
	answers := make([]string, len(pairs))
	var under sync.WaitGroup
	places := make(chan bool, 4)
	for i, pair := range pairs {
		under.Go(func() {
			places <- true
			answers[i] = ask(client, address, pair[0], pair[1])
			<-places
		})
	}
	under.Wait()
	for i, pair := range pairs {
		fmt.Printf("%-14s %-18s %s\n", pair[0], pair[1], answers[i])
	}
}
GO
GOTOOLCHAIN=local GOFLAGS=-mod=mod go build -o ask . 2>errors.txt || { cat errors.txt; exit 1; }
seen=$(./ask 2>errors.txt) || { cat errors.txt; exit 1; }
echo "$seen"
expected='platformatic   platformatic       nobody
platformatic   librdkafka         nobody
platformatic   kafka-python       nobody
platformatic   aiokafka           nobody
platformatic   franz-go           nobody
librdkafka     platformatic       nobody
kafka-python   platformatic       the first has ended
aiokafka       platformatic       second
franz-go       platformatic       second
librdkafka     platformatic, v0   second
kafka-python   platformatic, v0   second
librdkafka     kafka-python       second'
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }
