"""The service `ordo:Topics`: records that are produced, each once, and what groups have read."""

if __name__ != "ordo.gateway.kafka.service":
    raise ImportError("import it as ordo.gateway.kafka.service: no module may be imported under two names")
