"""Native only: see frames.pxd."""
