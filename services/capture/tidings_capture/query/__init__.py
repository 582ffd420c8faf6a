"""Source connectors that read tables by queries, as the JDBC source connectors do."""
