"""``tidings-translator init``: a starting domain from a database's catalog, or from the schemas in the registry."""
