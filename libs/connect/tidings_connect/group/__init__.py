"""A worker's part in its group: membership, the assignment of connectors, and health."""
