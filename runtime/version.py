"""The version of the distribution `ordo-sequencer`: the one place where it stands."""

VERSION = "0.3.0"
