"""Python's side of the values that stand for none; they are in the .pxd, where native code has them as constants."""
