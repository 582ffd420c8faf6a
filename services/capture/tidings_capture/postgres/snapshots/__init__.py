"""Snapshots: the initial, a blocking one, and the watermarks of incremental ones."""
