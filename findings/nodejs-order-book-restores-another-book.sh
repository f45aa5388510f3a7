#!/usr/bin/env bash
# nodejs-order-book 10.1.1 is a matching engine in JavaScript. For restarts it has what a replicated engine has: a
# journal of all operations, and snapshots from which a journal goes on. Its page says that both together restore the
# book.
#
# The surprise: each way restores another book than the one that was running, not in the same cases, and nothing
# fails.
# - An order that self-trade prevention ends is an error, which the journal leaves out, although the order may have
#   traded with others before. After a restart the orders that it bought are for sale again, and the same shares trade
#   twice.
# - A snapshot has no last price. Stop orders are compared with the prices between the last one and the new one, which
#   is from 0 up after a restart: the first sale at 99 executes a stop order that waits for 90.
# - A stop order to sell is taken if it is below the last price. Where it came after the snapshot and before a trade,
#   the replay refuses it and does not look: the order is gone. Operations are numbered as they succeed, so the next
#   one gets a number that the journal has already.
# - A snapshot does not say which limit order belongs to which stop order (OCO): of two, of which one is to be
#   executed, the second waits still after the first.
# Without stop orders and self-trade prevention, as in most tests, all books are the same.
#
# Seen with: nodejs-order-book 10.1.1 on Node 20; the book after a restart and one more operation (s: a stop order to
# sell at 90, the price being 100; o: an OCO order):
#                              running             from the journal     from the snapshot and the journal after it
#   limit, market, modify ...  e 1@99              e 1@99               e 1@99
#   self-trade prevented       own 4@101           a 4@100 own 5@101    a 4@100 own 5@101
#   stop before the snapshot   s waits             s waits              s executed
#   stop after the snapshot    s executed, is 6    s executed, is 6     no s, is 5 once more
#   OCO, its limit executed    no stop             no stop              o waits
#
# What follows: a snapshot must have all that decides about later orders; compare what restored books do with the same
# next orders, not how they look. With this library keep every request in the order in which it came, those with an
# error too, and make the book anew from all of them: that book is the same in all five cases.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit nodejs-order-book@10.1.1

cat >ask.mjs <<'JS'
import { OrderBook } from "nodejs-order-book";

const stored = (value) => JSON.parse(JSON.stringify(value));

function describe(book) {
  const { bids, asks, stopBook } = book.snapshot();
  const orders = (levels) => levels.flatMap((level) => level.orders);
  const resting = [...orders(bids), ...orders(asks)].map((order) => ` ${order.id} ${order.size}@${order.price}`);
  const waiting = [...orders(stopBook.bids), ...orders(stopBook.asks)].map((order) => `, ${order.id} waits`);
  return resting.join("") + waiting.join("");
}

function ask(title, before, after, next) {
  const running = new OrderBook({ enableJournaling: true });
  const journal = [];
  const anew = new OrderBook({ enableJournaling: true });
  const take = (steps) => {
    for (const [call, ...options] of steps) {
      const { log } = running[call](...stored(options));
      if (log) journal.push(stored(log));
      anew[call](...stored(options));
    }
  };
  take(before);
  const snapshot = stored(running.snapshot());
  take(after);
  const books = {
    running,
    journal: new OrderBook({ journal: stored(journal), enableJournaling: true }),
    snapshot: new OrderBook({ snapshot, journal: stored(journal), enableJournaling: true }),
    "all requests": anew,
  };
  console.log(`${title}, ${journal.length} in the journal`);
  for (const [name, book] of Object.entries(books)) {
    const [call, options] = next;
    const { activated, log } = book[call](stored(options));
    const executed = activated.map((order) => `, ${order.id} executed`).join("");
    console.log(`  ${name}:${describe(book)}${executed}, number ${log.opId}`);
  }
}

const limit = (id, side, size, price, more) => ["limit", { id, side, size, price, ...more }];
const market = (side, size) => ["market", { side, size }];
const stop = ["stopMarket", { id: "s", side: "sell", size: 3, stopPrice: 90 }];
const oco = ["oco", { id: "o", side: "sell", size: 3, price: 105, stopPrice: 90, stopLimitPrice: 89 }];
const atHundred = [limit("a", "sell", 5, 100), market("buy", 1), limit("b", "buy", 9, 99), limit("d", "buy", 9, 80)];

ask(
  "plain",
  [limit("a", "sell", 5, 101), limit("b", "buy", 5, 99), limit("c", "buy", 3, 99)],
  [market("sell", 2), ["modify", "c", { size: 4 }], ["cancel", "a"], limit("e", "sell", 9, 99)],
  market("buy", 1),
);
ask(
  "self-trade prevented",
  [limit("a", "sell", 5, 100), limit("own", "sell", 5, 101, { accountId: "x" })],
  [limit("taker", "buy", 8, 101, { accountId: "x", stpMode: "EXPIRE_TAKER" })],
  market("buy", 1),
);
ask("stop before the snapshot", [...atHundred, stop], [], market("sell", 1));
ask("stop after the snapshot", atHundred, [stop], market("sell", 10));
ask("OCO", [...atHundred, oco], [], market("buy", 7));
JS

seen=$(node ask.mjs)
echo "$seen"
expected='plain, 7 in the journal
  running: e 1@99, number 8
  journal: e 1@99, number 8
  snapshot: e 1@99, number 8
  all requests: e 1@99, number 8
self-trade prevented, 2 in the journal
  running: own 4@101, number 3
  journal: a 4@100 own 5@101, number 3
  snapshot: a 4@100 own 5@101, number 3
  all requests: own 4@101, number 3
stop before the snapshot, 5 in the journal
  running: b 8@99 d 9@80 a 4@100, s waits, number 6
  journal: b 8@99 d 9@80 a 4@100, s waits, number 6
  snapshot: b 5@99 d 9@80 a 4@100, s executed, number 6
  all requests: b 8@99 d 9@80 a 4@100, s waits, number 6
stop after the snapshot, 5 in the journal
  running: d 5@80 a 4@100, s executed, number 6
  journal: d 5@80 a 4@100, s executed, number 6
  snapshot: d 8@80 a 4@100, number 5
  all requests: d 5@80 a 4@100, s executed, number 6
OCO, 5 in the journal
  running: b 9@99 d 9@80, number 6
  journal: b 9@99 d 9@80, number 6
  snapshot: b 9@99 d 9@80, o waits, number 6
  all requests: b 9@99 d 9@80, number 6'
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }
