"""Python's side of the units of time; their values stand in the .pxd, where native code has them as constants."""
