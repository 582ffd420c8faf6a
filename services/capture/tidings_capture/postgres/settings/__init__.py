"""A connector's options: their table, checks, page, and the typed configuration."""
