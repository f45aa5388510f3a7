#!/usr/bin/env bash
# sseclient-py 1.9.0 (Python, on requests) and r3labs/sse 2.10.0 (Go) hand out an event of which the connection brought
# only the beginning, as if it were whole. The rule of server-sent events is that an event counts once the empty line
# behind it has come, and that whatever is pending is discarded when the stream ends. httpx-sse 0.4.3, go-sse 0.12.0 and
# launchdarkly/eventsource 1.11.0 keep to it.
#
# The surprise: nothing tells the half from the whole. A number that was cut is a shorter number: of "qty 1200" comes
# "12", without an error. And since servers usually write an event's id before its data, the half has the id of the whole:
# who goes on behind it, as Last-Event-ID is for, never sees the rest. r3labs hands out even an event with an id alone,
# and one without an id under that of the event before it. A server that is killed while it writes, or a proxy that ends
# its answer properly because the server behind it died, is enough.
#
# Seen with: sseclient-py 1.9.0, requests 2.34.2, httpx-sse 0.4.3, httpx 0.28.1, CPython 3.11; r3labs/sse 2.10.0,
# tmaxmax/go-sse 0.12.0, launchdarkly/eventsource 1.11.0, Go 1.26, Linux x86-64. The stream has one whole event
# (1: 100) and then the beginning of event 2, whose data is 1200:
#   what came of it        sseclient-py   r3labs     httpx-sse  go-sse  launchdarkly
#   id, half the data      2: 12          2: 12      nothing    nothing an error
#   id, all the data       2: 1200        2: 1200    nothing    nothing an error
#   half the data          12             1: 12      nothing    nothing an error
#   data, half the id      1200           1: 1200    nothing    nothing an error
#
# What follows: a server writes the id behind the data, so that a half has no id of its own and is sent again, and makes
# its data so that a part of it cannot be read (a JSON object, no bare number). Ordo's gateway does both
# (gateway/watching/channels.py); docs/CONSOLE.md says what is left to its users.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check \
    sseclient-py==1.9.0 requests==2.34.2 httpx-sse==0.4.3 httpx==0.28.1

cat >"$folder/server.py" <<'PYTHON'
"""Answers each GET /N with a whole event and the Nth beginning of another, and ends the connection in an orderly way."""

import socket

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\nid: 1\ndata: 100\n\n"
BEGINNINGS = (b"id: 2\ndata: 12", b"id: 2\ndata: 1200\n", b"data: 12", b"data: 1200\ni")

with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    while True:
        connection, _ = server.accept()
        with connection:
            request = b""
            while b"\r\n\r\n" not in request:
                request += connection.recv(4096)
            number = int(request.split()[1].strip(b"/"))
            connection.sendall(HEAD + BEGINNINGS[number])
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass
PYTHON

cat >"$folder/clients.py" <<'PYTHON'
import sys

import httpx
import httpx_sse
import requests
import sseclient

base = f"http://127.0.0.1:{sys.argv[1]}"
for number in range(4):
    answer = requests.get(f"{base}/{number}", stream=True, timeout=20)
    found = [f"{one.id}:{one.data}" for one in sseclient.SSEClient(answer).events()]
    print(number, "sseclient-py", *found)
    with httpx.Client() as client, httpx_sse.connect_sse(client, "GET", f"{base}/{number}") as source:
        print(number, "httpx-sse", *(f"{one.id}:{one.data}" for one in source.iter_sse()))
PYTHON

mkdir "$folder/go"
cat >"$folder/go/main.go" <<'GO'
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"

	launchdarkly "github.com/launchdarkly/eventsource"
	r3labs "github.com/r3labs/sse/v2"
	tmaxmax "github.com/tmaxmax/go-sse"
	"gopkg.in/cenkalti/backoff.v1"
)

func open(url string) *http.Response {
	answer, err := http.Get(url)
	if err != nil {
		panic(err)
	}
	return answer
}

func main() {
	for number := range 4 {
		url := fmt.Sprintf("http://127.0.0.1:%s/%d", os.Args[1], number)
		fmt.Print(number, " r3labs")
		client := r3labs.NewClient(url)
		ctx, end := context.WithCancel(context.Background())
		client.ReconnectStrategy = &backoff.StopBackOff{}
		seen := 0
		client.SubscribeRawWithContext(ctx, func(one *r3labs.Event) {
			if seen++; seen <= 2 { // it connects again by itself
				fmt.Printf(" %s:%s", one.ID, one.Data)
			}
			if seen == 2 {
				end()
			}
		})
		end()
		fmt.Print("\n", number, " go-sse")
		for one, err := range tmaxmax.Read(open(url).Body, nil) {
			fmt.Printf(" %s:%s", one.LastEventID, one.Data)
			if err != nil {
				fmt.Print(" error")
			}
		}
		fmt.Print("\n", number, " launchdarkly")
		decoder := launchdarkly.NewDecoder(open(url).Body)
		for {
			one, err := decoder.Decode()
			if err != nil {
				fmt.Println(" error")
				break
			}
			fmt.Printf(" %s:%s", one.Id(), one.Data())
		}
	}
}
GO
(
    cd "$folder/go"
    export GOFLAGS=-mod=mod GOPATH="$folder/gopath" GOCACHE="$folder/gocache"
    go mod init half >/dev/null 2>&1
    go get github.com/r3labs/sse/v2@v2.10.0 github.com/tmaxmax/go-sse@v0.12.0 \
        github.com/launchdarkly/eventsource@v1.11.0 gopkg.in/cenkalti/backoff.v1@v1.1.0 >/dev/null 2>&1
    go build -o ../clients . && chmod -R u+w "$folder/gopath"
)

python3 "$folder/server.py" >"$folder/port" &
until [[ -s $folder/port ]]; do sleep 0.1; done
port=$(<"$folder/port")
{
    timeout 60 "$folder/venv/bin/python" "$folder/clients.py" "$port"
    timeout 60 "$folder/clients" "$port"
} | sort >"$folder/seen"
cat "$folder/seen"

diff "$folder/seen" - <<'SEEN'
0 go-sse 1:100
0 httpx-sse 1:100
0 launchdarkly 1:100 error
0 r3labs 1:100 2:12
0 sseclient-py 1:100 2:12
1 go-sse 1:100
1 httpx-sse 1:100
1 launchdarkly 1:100 error
1 r3labs 1:100 2:1200
1 sseclient-py 1:100 2:1200
2 go-sse 1:100
2 httpx-sse 1:100
2 launchdarkly 1:100 error
2 r3labs 1:100 1:12
2 sseclient-py 1:100 None:12
3 go-sse 1:100
3 httpx-sse 1:100
3 launchdarkly 1:100 error
3 r3labs 1:100 1:1200
3 sseclient-py 1:100 None:1200
SEEN
echo "as described: sseclient-py 1.9.0 and r3labs/sse 2.10.0 hand out events that did not come whole"
