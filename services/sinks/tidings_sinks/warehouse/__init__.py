"""A sink that merges batches of staged Parquet into a warehouse: a file of DuckDB."""
