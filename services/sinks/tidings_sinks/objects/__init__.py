"""A sink that writes objects: files in S3, Google Cloud Storage, Azure or a directory, in Parquet, Avro or JSON lines."""
