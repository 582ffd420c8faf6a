"""Kafka Connect's REST API, and what it does not have."""
