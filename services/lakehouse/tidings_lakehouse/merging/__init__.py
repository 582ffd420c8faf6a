"""How often the changes of a log are merged into the current state of its table."""
