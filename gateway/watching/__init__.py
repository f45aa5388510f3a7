"""Topics and the committed log for browsers and dashboards: server-sent events and WebSocket."""
