"""WAL under watch: what replication slots retain, forecasts, the guard that keeps them from filling a server's disk."""
