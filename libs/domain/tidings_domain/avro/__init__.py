"""Avro's binary encoding, straight from event classes."""
