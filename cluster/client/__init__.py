"""The cluster client, plain and for asyncio. Programs import it from `ordo`."""
