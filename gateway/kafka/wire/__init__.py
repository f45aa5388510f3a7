"""Frames, requests, responses and batches of records as bytes."""

if __name__ != "ordo.gateway.kafka.wire":
    raise ImportError("import it as ordo.gateway.kafka.wire: no module may be imported under two names")
