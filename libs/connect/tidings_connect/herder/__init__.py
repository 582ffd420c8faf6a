"""Which connectors there are, which of them this worker runs, and that it is done."""
