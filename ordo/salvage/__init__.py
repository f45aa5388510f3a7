"""What is left of a cluster whose majority is gone for good, and the new epoch that goes on with it."""
