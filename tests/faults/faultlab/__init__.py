"""A system under faults: servers behind proxies, traffic with an independent history, and a verdict on the topics."""
