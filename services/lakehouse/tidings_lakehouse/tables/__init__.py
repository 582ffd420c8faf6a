"""Iceberg tables: their names, commits, snapshots and positions, and the job's own tables."""
