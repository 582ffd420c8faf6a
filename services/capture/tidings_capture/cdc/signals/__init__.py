"""Signals, what answers them, and the notifications that tell of it."""
