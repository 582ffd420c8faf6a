"""Avro: Connect schemas and data as the AvroConverter writes them, and what a schema means for its reader."""
