"""The Sequencer: takes messages from ingress and puts them into the one order."""

if __name__ != "ordo.sequencer":
    raise ImportError("import it as ordo.sequencer: no module may be imported under two names")
