"""Reads tables beside the job: by DuckDB and Spark, now and as of one commit, for a person or a script."""
