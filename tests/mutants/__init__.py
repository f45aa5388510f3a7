"""Mutants of the product: one change of one function each, and which tests find them."""
