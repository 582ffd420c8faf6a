"""Uses librdkafka for all that Faust does not do: topics, offsets, reading, transactions."""
