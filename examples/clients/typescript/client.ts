/**
 * A caller of Ordo gateways (docs/GATEWAY.md):
 *
 *     node build/client.js submit FILE < requests    line N is request N of the identity in FILE, made the first time
 *     node build/client.js watch TOPIC SEQUENCE      what is published to a topic, from a number on
 *     node build/client.js consume NAME              as a member of the shared durable consumer NAME
 *
 * ORDO_GATEWAYS is HOST:PORT,HOST:PORT; ORDO_TOKEN a token of the cluster; ORDO_CA a PEM file, for TLS.
 * Without a token or TLS they are left out, or empty.
 */
import { randomBytes } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import * as grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

import type { ProtoGrpcType } from "./generated/ordo";
import type { Acknowledgement } from "./generated/ordo/v1/Acknowledgement";
import type { ConsumedEntry__Output } from "./generated/ordo/v1/ConsumedEntry";
import type { ConsumeResponse__Output } from "./generated/ordo/v1/ConsumeResponse";
import type { ConsumersClient } from "./generated/ordo/v1/Consumers";
import type { OpenIdentityResponse__Output } from "./generated/ordo/v1/OpenIdentityResponse";
import type { SequencerClient } from "./generated/ordo/v1/Sequencer";
import type { SubmitRequest } from "./generated/ordo/v1/SubmitRequest";
import type { SubmitResponse__Output } from "./generated/ordo/v1/SubmitResponse";
import type { TopicBatch__Output } from "./generated/ordo/v1/TopicBatch";

const CONTRACT = join(__dirname, "../../../../service_api/ordo.proto");
const TIMEOUT_MS = 5_000;
/** A gateway or cluster that is still full after so many failures in a row, or takes no such message, is not asked again. */
const FAILURES_MAX = 8;

interface Gateway {
  sequencer: SequencerClient;
  consumers: ConsumersClient;
}

function connect(): Gateway[] {
  const { ordo } = grpc.loadPackageDefinition(
    loadSync(CONTRACT, { longs: String, defaults: true }),
  ) as unknown as ProtoGrpcType;
  const ca = process.env.ORDO_CA;
  const security = ca ? grpc.credentials.createSsl(readFileSync(ca)) : grpc.credentials.createInsecure();
  const options = { "grpc.keepalive_time_ms": 20_000, "grpc.max_receive_message_length": -1 };
  return (process.env.ORDO_GATEWAYS ?? "").split(",").map((address) => ({
    sequencer: new ordo.v1.Sequencer(address, security, options),
    consumers: new ordo.v1.Consumers(address, security, options),
  }));
}

const gateways = connect();
let current = 0;
let failures = 0; // in a row
const metadata = new grpc.Metadata();
if (process.env.ORDO_TOKEN) {
  metadata.set("authorization", `Bearer ${process.env.ORDO_TOKEN}`);
}

function isError(error: unknown): error is grpc.ServiceError {
  return error instanceof Error && "code" in error;
}

function mayBeMadeAgain(error: unknown): error is grpc.ServiceError {
  return (
    isError(error) &&
    (error.code === grpc.status.UNAVAILABLE ||
      error.code === grpc.status.DEADLINE_EXCEEDED ||
      (error.code === grpc.status.RESOURCE_EXHAUSTED && failures < FAILURES_MAX))
  );
}

/** Makes a call, again and at the next gateway for as long as its outcome is unknown or nobody can take it. */
async function call<T>(once: (gateway: Gateway) => Promise<T>): Promise<T> {
  for (;;) {
    try {
      const answer = await once(gateways[current]);
      failures = 0;
      return answer;
    } catch (error) {
      if (!mayBeMadeAgain(error)) {
        failures = 0;
        throw error;
      }
      console.error(error.message);
      current = (current + 1) % gateways.length;
      await sleep(200 << Math.min(failures, 4));
      failures += 1;
    }
  }
}

/** The answer of a call that has one. */
function answer<T>(begin: (options: grpc.CallOptions, callback: grpc.requestCallback<T>) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    begin({ deadline: Date.now() + TIMEOUT_MS }, (error, value) => (error ? reject(error) : resolve(value as T)));
  });
}

/** An identity and where the log opened it: undefined for a new one, which has no file yet. */
interface Identity {
  bytes: Buffer;
  position?: string;
}

function readIdentity(path: string): Identity {
  if (!existsSync(path)) {
    return { bytes: randomBytes(16) };
  }
  const fields = /^([0-9a-fA-F]{32}) ([1-9][0-9]{0,18})\n$/.exec(readFileSync(path, "latin1"));
  if (!fields) {
    throw new Error(
      `${path} is not an identity file, which has 32 hexadecimal digits and a position: ` +
        "name another file, or delete it if nothing was submitted with it",
    );
  }
  return { bytes: Buffer.from(fields[1], "hex"), position: fields[2] };
}

/** Is on the disk before the first request is sent. */
function writeIdentity(path: string, identity: Buffer, position: string): void {
  writeFileSync(path, `${identity.toString("hex")} ${position}\n`, { flag: "wx", flush: true });
}

/** An identity that the cluster has forgotten is opened at another position: nobody knows which lines were executed. */
async function openIdentity({ bytes, position }: Identity, path: string): Promise<OpenIdentityResponse__Output> {
  const opened = await call(({ sequencer }) =>
    answer<OpenIdentityResponse__Output>((options, callback) =>
      sequencer.openIdentity({ identity: bytes }, metadata, options, callback),
    ),
  );
  if (position === undefined) {
    writeIdentity(path, bytes, opened.identityPosition);
  } else if (position !== opened.identityPosition) {
    throw new Error(
      `the cluster has forgotten the identity in ${path}, and which lines were executed: ` +
        "find that out, and submit the others with a new file",
    );
  }
  return opened;
}

/**
 * The same identity and number make a request the same: however often it is sent, it is executed once. So a program
 * that was killed is started again with the same file and lines.
 */
async function submit(path: string): Promise<void> {
  const identity = readIdentity(path);
  const opened = await openIdentity(identity, path);
  const confirmed = Number(opened.confirmed);
  if (confirmed > 0) {
    console.error(`skips the first ${confirmed} lines, which were executed before`);
  }
  let number = 0;
  for await (const line of linesOf(process.stdin)) {
    number += 1;
    if (number > confirmed) {
      if (line.length > opened.payloadBytesMax) {
        throw new Error(
          `line ${number} has ${line.length} bytes, and the cluster takes ${opened.payloadBytesMax}: ` +
            "it was not sent, the lines before it were executed",
        );
      }
      await submitOne({
        identity: identity.bytes,
        number,
        payload: line,
        confirmed: number - 1,
        identityPosition: opened.identityPosition,
      });
    }
  }
}

/** The bytes between line feeds. */
async function* linesOf(input: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let begun: Buffer[] = [];
  for await (let chunk of input) {
    for (let end = chunk.indexOf("\n"); end >= 0; end = chunk.indexOf("\n")) {
      yield Buffer.concat([...begun, chunk.subarray(0, end)]);
      begun = [];
      chunk = chunk.subarray(end + 1);
    }
    begun.push(chunk);
  }
  const last = Buffer.concat(begun);
  if (last.length > 0) {
    yield last;
  }
}

async function submitOne(request: SubmitRequest): Promise<void> {
  try {
    const { logPosition, payload } = await call(({ sequencer }) =>
      answer<SubmitResponse__Output>((options, callback) => sequencer.submit(request, metadata, options, callback)),
    );
    console.log(`${request.number}\t${logPosition}\t${payload}`);
  } catch (error) {
    if (!isError(error) || error.code !== grpc.status.FAILED_PRECONDITION) {
      throw error;
    }
    console.log(`${request.number}\trefused\t${error.details}`); // executed: the service's own refusal is an answer, too
  }
}

/** Messages of a topic have numbers without gaps: who goes on with the next one misses nothing. */
async function watch(topic: string, next: bigint): Promise<void> {
  await call(async ({ sequencer }) => {
    const batches: AsyncIterable<TopicBatch__Output> = sequencer.subscribeTopic(
      { topic, fromSequence: next.toString() },
      metadata,
    );
    for await (const { messages } of batches) {
      failures = 0;
      for (const { sequence, payload } of messages) {
        console.log(`${sequence}\t${payload}`);
        next = BigInt(sequence) + 1n;
      }
    }
  });
}

/** What is not acknowledged, because this program or its gateway was killed, is handed out again to any member. */
async function consume(name: string): Promise<void> {
  await call(async ({ consumers }) => {
    const stream = consumers.consume(metadata);
    stream.write({ begin: { name, isShared: true } });
    const responses: AsyncIterable<ConsumeResponse__Output> = stream;
    for await (const { entries } of responses) {
      failures = 0;
      stream.write({ acknowledgements: { acknowledgements: entries.map(handle) } });
    }
  });
}

function handle({ entry, tryCount }: ConsumedEntry__Output): Acknowledgement {
  console.log(`${entry?.position}\t${tryCount}\t${entry?.payload}`);
  return { position: entry?.position, tryCount };
}

async function main([command, ...words]: string[]): Promise<void> {
  if (command === "submit" && words.length === 1) {
    await submit(words[0]);
  } else if (command === "watch" && words.length === 2) {
    await watch(words[0], BigInt(words[1]));
  } else if (command === "consume" && words.length === 1) {
    await consume(words[0]);
  } else {
    throw new Error("usage: client.js submit FILE | watch TOPIC SEQUENCE | consume NAME");
  }
}

main(process.argv.slice(2)).catch((error: Error) => {
  console.error(error.message);
  process.exit(1);
});
