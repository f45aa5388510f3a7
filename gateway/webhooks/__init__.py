"""Webhooks: each message of the log as an HTTP POST, repeated until it is taken: `ordo webhook` (docs/WEBHOOKS.md).

A hook is a durable consumer, so its place in the log is part of the cluster's replicated state.
"""
