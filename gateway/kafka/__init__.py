"""Kafka's wire protocol in front of a cluster: a broker, as far as its clients can tell, in a process of its own."""

if __name__ != "ordo.gateway.kafka":
    raise ImportError("import it as ordo.gateway.kafka: no module may be imported under two names")
