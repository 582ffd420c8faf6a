"""A Kafka Connect worker in Python. It knows no database: connectors, transforms and converters are found by entry points."""
