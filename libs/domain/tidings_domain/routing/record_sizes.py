"""Limits the size of records on Kafka; what is larger is found before anything is produced."""

MAX_RECORD_BYTES = 8 * 1024 * 1024
"""Largest record that is produced; topics created by us take as much."""
MAX_VALUE_BYTES = MAX_RECORD_BYTES - 64 * 1024
"""Largest value; the rest of a record is for its key, headers and framing."""
