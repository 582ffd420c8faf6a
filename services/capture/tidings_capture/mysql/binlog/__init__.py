"""The binary log: its events, the rows in them, and places in it."""
