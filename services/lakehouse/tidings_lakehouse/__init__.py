"""The lakehouse job: technical and business topics into Iceberg tables, by PySpark Structured Streaming."""
