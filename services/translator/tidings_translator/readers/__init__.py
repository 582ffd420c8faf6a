"""Who still reads which version of an event."""
