"""Iceberg tags of all tables of a source at one commit position."""
