"""The stream of changes: its loop, phases and position, and what goes on beside it."""
