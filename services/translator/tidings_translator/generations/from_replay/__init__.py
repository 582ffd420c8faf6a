"""Begins a generation with what the lakehouse has replayed: events, states and what the sequencer remembers, at one commit."""
