"""Incremental snapshots: tables read in chunks beside the stream."""
