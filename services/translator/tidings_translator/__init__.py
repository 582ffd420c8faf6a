"""Runs a domain: the sequencer puts transactions together, the translator publishes business events."""
