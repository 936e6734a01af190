"""Declared studies: many runs, one file that says which, and what came out of them."""
