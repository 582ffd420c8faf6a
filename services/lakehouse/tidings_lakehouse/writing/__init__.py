"""Writes batches of both streams: logs, current states, events, quarantine, topics set aside."""
