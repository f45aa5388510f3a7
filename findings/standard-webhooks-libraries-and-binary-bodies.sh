#!/usr/bin/env bash
# The specification Standard Webhooks signs `id.timestamp.body` as bytes, and leaves open what a body is. The
# project's own libraries do not agree on a body that is no UTF-8 (an SBE or protobuf message), signed as specified:
#
#   Go         v0.0.1    takes []byte                      verifies
#   Rust       1.0.1     takes &[u8]                       refuses it: payload invalid
#   Python     1.1.0     takes bytes                       raises UnicodeDecodeError, which is no WebhookVerificationError
#   JavaScript 1.1.1     takes a Buffer                    No matching signature found
#
# All four verify the same message when its body is text.
#
# What follows: who posts binary messages puts them into JSON as base64, or tells receivers to compute the HMAC by hand.
# A receiver in Python that catches the library's own error only answers 500, and is sent the post again for ever.
set -euo pipefail
folder=$(mktemp -d)
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
cd "$folder"
export SECRET=whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY= ID=msg_1

python3 - <<'PY'
import base64, hmac, os, time
key = base64.b64decode(os.environ["SECRET"].removeprefix("whsec_"))
now = str(int(time.time()))
open("timestamp", "w").write(now)
for name, body in {"text": b'{"n": 1}', "binary": bytes.fromhex("100001000b000000ff80c3")}.items():
    signed = f"{os.environ['ID']}.{now}.".encode() + body
    open(f"{name}.body", "wb").write(body)
    open(f"{name}.signature", "w").write("v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode())
PY

python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check standardwebhooks==1.1.0
cat >verify.py <<'PY'
import os, sys
from standardwebhooks.webhooks import Webhook
name = sys.argv[1]
headers = {"webhook-id": os.environ["ID"], "webhook-timestamp": open("timestamp").read(),
           "webhook-signature": open(f"{name}.signature").read()}
try:
    Webhook(os.environ["SECRET"]).verify(open(f"{name}.body", "rb").read(), headers, json_parse=False)
    print("verified")
except Exception as error:
    print(type(error).__name__)
PY

npm install --silent --no-fund --no-audit standardwebhooks@1.1.1 >npm.txt 2>&1 || { cat npm.txt; exit 1; }
cat >verify.js <<'JS'
const { readFileSync } = require("fs");
const { Webhook } = require("standardwebhooks");
const name = process.argv[2];
const headers = { "webhook-id": process.env.ID, "webhook-timestamp": readFileSync("timestamp", "utf8"),
  "webhook-signature": readFileSync(`${name}.signature`, "utf8") };
try {
  new Webhook(process.env.SECRET).verify(readFileSync(`${name}.body`), headers, { jsonParse: false });
  console.log("verified");
} catch (error) {
  console.log(error.message);
}
JS

mkdir go rust rust/src
cat >go/go.mod <<'MOD'
module verify
go 1.19
require github.com/standard-webhooks/standard-webhooks/libraries v0.0.1
MOD
cat >go/main.go <<'GO'
package main

import (
	"fmt"
	"net/http"
	"os"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

func read(name string) []byte {
	found, err := os.ReadFile(name)
	if err != nil {
		panic(err)
	}
	return found
}

func main() {
	name := os.Args[1]
	headers := http.Header{}
	headers.Set("webhook-id", os.Getenv("ID"))
	headers.Set("webhook-timestamp", string(read("timestamp")))
	headers.Set("webhook-signature", string(read(name+".signature")))
	hook, err := webhooks.NewWebhook(os.Getenv("SECRET"))
	if err != nil {
		panic(err)
	}
	if err := hook.Verify(read(name+".body"), headers); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("verified")
}
GO
cat >rust/Cargo.toml <<'TOML'
[package]
name = "verify"
version = "0.1.0"
edition = "2021"
[dependencies]
standardwebhooks = "=1.0.1"
http = "1"
TOML
cat >rust/src/main.rs <<'RS'
use http::HeaderMap;
use std::{env, fs};

fn main() {
    let name = env::args().nth(1).unwrap();
    let read = |file: String| fs::read(file).unwrap();
    let mut headers = HeaderMap::new();
    headers.insert("webhook-id", env::var("ID").unwrap().parse().unwrap());
    for (header, file) in [("timestamp", "timestamp".to_string()), ("signature", format!("{name}.signature"))] {
        let value = String::from_utf8(read(file)).unwrap();
        headers.insert(if header == "timestamp" { "webhook-timestamp" } else { "webhook-signature" }, value.parse().unwrap());
    }
    let hook = standardwebhooks::Webhook::new(&env::var("SECRET").unwrap()).unwrap();
    match hook.verify(&read(format!("{name}.body")), &headers) {
        Ok(()) => println!("verified"),
        Err(error) => println!("{error}"),
    }
}
RS
(cd go && GOFLAGS=-mod=mod go build -o ../verify-go . >go.txt 2>&1) || { cat go/go.txt; exit 1; }
(cd rust && cargo build -q >cargo.txt 2>&1) || { cat rust/cargo.txt; exit 1; }

answers() {
    echo "$1: Go $(./verify-go "$1")"
    echo "$1: Rust $(rust/target/debug/verify "$1")"
    echo "$1: Python $(venv/bin/python verify.py "$1")"
    echo "$1: JavaScript $(node verify.js "$1")"
}

{ answers text; answers binary; } | tee seen
diff seen - <<'SEEN'
text: Go verified
text: Rust verified
text: Python verified
text: JavaScript verified
binary: Go verified
binary: Rust payload invalid
binary: Python UnicodeDecodeError
binary: JavaScript No matching signature found
SEEN
