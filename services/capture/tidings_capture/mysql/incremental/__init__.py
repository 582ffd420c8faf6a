"""Incremental snapshots of MariaDB: what `cdc.incremental.snapshot` asks of a database."""
