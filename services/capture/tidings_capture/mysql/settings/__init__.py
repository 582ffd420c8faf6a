"""The connector's options, checked and typed."""
