"""The pocket policies: what they are shown, how they are made, and those that ship (weights/)."""
