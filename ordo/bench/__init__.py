"""Measures Ordo on the machine it runs on: `ordo bench`."""
