"""Kafka Connect's connectors for files: lines from a file to a topic, and records from topics to lines of a file."""
