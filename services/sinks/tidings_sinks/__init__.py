"""Sink connectors of the worker (`tidings_connect`): from topics to other systems. See `docs/sinks.md`."""
