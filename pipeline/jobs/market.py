"""Market: trades, volume bars, spread and depth from the log of a matching engine.

The log holds what clients sent; what it led to comes from running the engine over the log again (jobs/replay.py). The
engine is a service whose answers follow the order-entry protocol below and whose books can be looked at as
`service.core.books[instrument].levels(side)`, best first, each with `price` and `quantity`.

    request  kind u8, flags u8 (1: sell), instrument u16, client u32, sequence u64, order u64, quantity u32, price u32
    answer   16 u8, status u8, instrument u16, client u32, sequence u64, order id u64, filled u32, remaining u32,
             fills u32, zero u32; then each fill: maker order id u64, match number u64, quantity u32, price u32
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from ordo.pipeline.decoding.payloads import MESSAGE_KINDS, application_bytes
from ordo.pipeline.jobs.replay import observed
from ordo.pipeline.jobs.report import BLUE, GREY, Report, new_figure, price
from ordo.pipeline.replaying.replay_cluster import Effect, ReplayCluster
from ordo.pipeline.spark.rows import keep_rows, rows_of

ANSWER = struct.Struct("<BBHIQQIIII")
FILL = struct.Struct("<QQII")
ANSWER_KIND, ACCEPTED = 16, 0
BUY, SELL = 0, 1
PRICE_SCALE = 10_000
DEPTH_LEVELS = 5
INSTRUMENTS_MAX = 20
_COLUMNS = (
    ("what", pa.string(), "string"),
    ("position", pa.int64(), "long"),
    ("timestamp", pa.timestamp("us", tz="UTC"), "timestamp"),
    ("instrument", pa.int32(), "int"),
    ("match_number", pa.int64(), "long"),
    ("price", pa.int64(), "long"),
    ("quantity", pa.int64(), "long"),
    ("maker_order_id", pa.decimal128(20, 0), "decimal(20,0)"),
    ("taker_order_id", pa.decimal128(20, 0), "decimal(20,0)"),
    ("bid", pa.int64(), "long"),
    ("bid_quantity", pa.int64(), "long"),
    ("bid_depth", pa.int64(), "long"),
    ("ask", pa.int64(), "long"),
    ("ask_quantity", pa.int64(), "long"),
    ("ask_depth", pa.int64(), "long"),
)
_SCHEMA = pa.schema([(name, kind) for name, kind, _ in _COLUMNS])
_SQL = ", ".join(f"{name} {kind}" for name, _, kind in _COLUMNS)
_TRADE = (
    "position",
    "timestamp",
    "instrument",
    "match_number",
    "price",
    "quantity",
    "maker_order_id",
    "taker_order_id",
)
_QUOTE = ("position", "timestamp", "instrument", "bid", "bid_quantity", "bid_depth", "ask", "ask_quantity", "ask_depth")


def events(
    spark: SparkSession,
    directory: str,
    service: str,
    commit: str = "auto",
    depth: int = DEPTH_LEVELS,
    storage: Mapping[str, object] | None = None,
) -> DataFrame:
    """Trades and quotes in one frame, told apart by `what`; the engine runs once for both. Cache it to use it twice."""
    return observed(spark, directory, service, partial(_observe, depth), _SCHEMA, _SQL, commit, storage)


def _observe(depth: int, record: dict[str, Any], effects: list[Effect], cluster: ReplayCluster) -> list[dict[str, Any]]:
    request = application_bytes(record["kind"], record["payload"]) if record["kind"] in MESSAGE_KINDS else None
    if request is None or len(request) < 32:
        return []
    rows = [row for effect in effects if effect.kind == "egress" for row in _fills(record, effect.value)]
    (instrument,) = struct.unpack_from("<H", request, 2)
    book = cluster.service.core.books.get(instrument)  # type: ignore[union-attr]
    if book is not None:
        rows.append(_quote(record, instrument, book, depth))
    return rows


def _fills(record: dict[str, Any], answer: bytes | int) -> list[dict[str, Any]]:
    """Return the trades of an answer; none for any other message."""
    if not isinstance(answer, bytes) or len(answer) < ANSWER.size or answer[0] != ANSWER_KIND or answer[1] != ACCEPTED:
        return []
    _, _, instrument, _, _, order_id, _, _, count, _ = ANSWER.unpack_from(answer)
    fills = [FILL.unpack_from(answer, ANSWER.size + index * FILL.size) for index in range(count)]
    return [
        {"what": "trade", "position": record["position"], "timestamp": record["timestamp"], "instrument": instrument,
         "match_number": number, "price": price, "quantity": quantity, "maker_order_id": maker,
         "taker_order_id": order_id}
        for maker, number, quantity, price in fills
    ]  # fmt: skip


def _quote(record: dict[str, Any], instrument: int, book: Any, depth: int) -> dict[str, Any]:
    row = {"what": "quote", "position": record["position"], "timestamp": record["timestamp"], "instrument": instrument}
    for name, side in (("bid", BUY), ("ask", SELL)):
        levels = book.levels(side)[:depth]
        if levels:
            row[name], row[f"{name}_quantity"] = levels[0].price, levels[0].quantity
            row[f"{name}_depth"] = sum(level.quantity for level in levels)
    return row


def trades(market: DataFrame) -> DataFrame:
    """Every execution once: an answer that was sent again repeats its fills, their match numbers tell.

    position, timestamp, instrument, match_number, price and quantity (1/10000), maker_order_id, taker_order_id.
    """
    first = Window.partitionBy("match_number").orderBy("position")
    found = market.where("what = 'trade'").select(*_TRADE).withColumn("copy", F.row_number().over(first))
    return found.where("copy = 1").drop("copy")


def quotes(market: DataFrame) -> DataFrame:
    """Top and depth of the book after each request: bid, ask, quantities, depths, spread; prices in 1/10000."""
    return market.where("what = 'quote'").select(*_QUOTE).withColumn("spread", F.col("ask") - F.col("bid"))


def volume_bars(found: DataFrame, shares: int) -> DataFrame:
    """Bars of about `shares` each: (instrument, bar, start, end, open, high, low, close, vwap, quantity, trades).

    A trade belongs to the bar in which it begins.
    """
    order = Window.partitionBy("instrument").orderBy("match_number").rowsBetween(Window.unboundedPreceding, -1)
    before = F.coalesce(F.sum("quantity").over(order), F.lit(0))
    placed = found.withColumn("bar", F.floor(before / shares))
    by_number = F.struct("match_number", "price")
    value = F.sum(F.col("price") * F.col("quantity"))
    return (
        placed.groupBy("instrument", "bar")
        .agg(
            F.min("timestamp").alias("start"),
            F.max("timestamp").alias("end"),
            F.min(by_number)["price"].alias("open"),
            F.max("price").alias("high"),
            F.min("price").alias("low"),
            F.max(by_number)["price"].alias("close"),
            (value / F.sum("quantity")).alias("vwap"),
            F.sum("quantity").alias("quantity"),
            F.count("*").alias("trades"),
        )
        .orderBy("instrument", "bar")
    )


def spread_by_minute(found: DataFrame) -> DataFrame:
    """Spread and mean depth by minute: (instrument, minute, spread_mean, spread_max, bid_depth, ask_depth)."""
    minute = F.date_trunc("minute", "timestamp").alias("minute")
    return (
        found.where("spread is not null")
        .groupBy("instrument", minute)
        .agg(
            F.avg("spread").alias("spread_mean"),
            F.max("spread").alias("spread_max"),
            F.avg("bid_depth").alias("bid_depth"),
            F.avg("ask_depth").alias("ask_depth"),
        )
        .orderBy("instrument", "minute")
    )


def write_report(market: DataFrame, folder: str, shares: int = 1000) -> str:
    """`market.html`, `market.json`; returns the page's path."""
    market = market.persist(StorageLevel.DISK_ONLY)
    found = trades(market)
    total = found.agg(F.count("*").alias("n"), F.sum("quantity").alias("q")).collect()[0]
    bars = keep_rows(rows_of(volume_bars(found, shares)), folder, "market-bars")
    spreads = keep_rows(rows_of(spread_by_minute(quotes(market))), folder, "market-spreads")
    last = quotes(market).orderBy(F.desc("position")).select("position", "bid", "ask", "spread").head(1)
    market.unpersist()
    facts = {"executions": total["n"], "shares": total["q"] or 0, **bars.facts("bars"),
             **spreads.facts("spread_by_minute"), "last_quote": last[0].asDict() if last else None}  # fmt: skip
    return write_page(facts, folder, shares)


def write_page(facts: dict[str, Any], folder: str, shares: int) -> str:
    """Return the page: instruments apart, prices with their decimals."""
    report = Report("Market", facts)
    report.line(f"{facts['executions']:,} executions of {facts['shares']:,} shares")
    instruments = sorted({row["instrument"] for row in facts["bars"] + facts["spread_by_minute"]})
    for instrument in instruments[:INSTRUMENTS_MAX]:
        report.heading(f"Instrument {instrument}")
        _write_bars(report, [bar for bar in facts["bars"] if bar["instrument"] == instrument], shares)
        _write_spreads(report, [row for row in facts["spread_by_minute"] if row["instrument"] == instrument])
    if len(instruments) > INSTRUMENTS_MAX:
        report.line(f"{INSTRUMENTS_MAX} of {len(instruments):,} instruments; the JSON file beside this page has all.")
    for name in ("bars", "spread_by_minute"):
        report.cut(facts.get(f"{name}_count", 0), len(facts[name]), facts.get(f"{name}_file", ""))
    return str(report.write(folder, "market"))


def _write_bars(report: Report, bars: list[dict[str, Any]], shares: int) -> None:
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    if not bars:
        report.line("No executions.")
        return
    figure, axis = new_figure()
    for bar in bars:
        axis.plot([bar["bar"]] * 2, [bar["low"] / PRICE_SCALE, bar["high"] / PRICE_SCALE], color=GREY, linewidth=1)
        axis.plot([bar["bar"]], [bar["close"] / PRICE_SCALE], "o", markersize=3, color=BLUE)
    axis.set_xlabel(f"bar of {shares:,} shares")
    axis.set_ylabel("price")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.yaxis.set_major_formatter(StrMethodFormatter("{x:,.2f}"))
    report.picture(
        figure,
        f"Low, high and close (dot) of each volume bar of {shares:,} shares. A trade is in the bar in which it begins, "
        f"so a bar may have more or fewer shares, and one in which no trade begins is left out.",
    )
    prices = ("open", "high", "low", "close", "vwap")
    names = ("bar", "start", "end", *prices, "quantity", "trades")
    rows = [[price(bar[name], PRICE_SCALE) if name in prices else bar[name] for name in names] for bar in bars]
    report.table(names, rows)


def _write_spreads(report: Report, spreads: list[dict[str, Any]]) -> None:
    rows = [
        (row["minute"], price(row["spread_mean"], PRICE_SCALE), price(row["spread_max"], PRICE_SCALE), row["bid_depth"],
         row["ask_depth"])
        for row in spreads
    ]  # fmt: skip
    report.table(
        ("minute", "mean spread", "largest spread", "mean bid depth (shares)", "mean ask depth (shares)"), rows
    )
