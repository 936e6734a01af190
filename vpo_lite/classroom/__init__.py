"""A class on this machine: the notebooks that ship, the check of the day before, the panel served.

- notebooks: where they are, and copies of them
- check: what a class needs, found or not
- serve: the panel without code cells, for a projector or a room
"""
