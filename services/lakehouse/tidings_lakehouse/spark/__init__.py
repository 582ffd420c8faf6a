"""Spark itself: its JVM and session, Kafka as its client reads it, rows without a task."""
