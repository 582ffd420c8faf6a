"""Puts rows and transaction markers together to complete transactions. No Kafka, no clock, no logger."""
