"""Stored positions: their form, the history they belong to, what may be lost, and how a task starts from them."""
