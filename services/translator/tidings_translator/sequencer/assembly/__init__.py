"""From rows and transaction markers to complete transactions in commit order. No Kafka, no clock, no logger."""
