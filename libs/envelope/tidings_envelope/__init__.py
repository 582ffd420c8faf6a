"""Debezium's change events: envelopes, Connect schemas, codecs, the wire format, positions."""
