"""Change data capture from PostgreSQL: its protocol, types, catalog, snapshots and stream."""
