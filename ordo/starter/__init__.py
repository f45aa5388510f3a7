"""What `ordo init` gives somebody to begin with: a service and a client, copied as they are."""
