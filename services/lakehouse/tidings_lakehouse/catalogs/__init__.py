"""The kinds of Iceberg catalogs and of storage that a lakehouse may be in, by its settings."""
