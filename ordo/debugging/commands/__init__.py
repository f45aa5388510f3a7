"""`ordo debug`."""
