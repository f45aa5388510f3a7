"""Fuzzing of every door that bytes from outside come in by: `make fuzz`."""
