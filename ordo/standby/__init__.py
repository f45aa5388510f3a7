"""A cluster of one in another place, which follows a primary's log without being waited for: `ordo standby`."""
