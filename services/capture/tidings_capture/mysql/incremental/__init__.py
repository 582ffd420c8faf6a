"""Incremental snapshots of MariaDB: what `cdc.incremental` asks of a database."""
