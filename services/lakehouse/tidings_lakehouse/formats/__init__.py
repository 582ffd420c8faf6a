"""What records are written in: Avro, JSON with schemas, and the registry."""
