"""Converters: how keys and values become bytes and bytes become keys and values, and how they log in to a registry."""
