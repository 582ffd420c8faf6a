"""Removes the rows of one person for good."""
