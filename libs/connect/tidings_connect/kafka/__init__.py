"""Kafka through librdkafka: producers, topics, compacted logs, and the settings of the Java clients."""
