"""What a start reads of a recorded log: its terms, and what its records say is committed."""
