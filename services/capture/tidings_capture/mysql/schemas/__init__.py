"""What tables are: by the catalog, by definitions (DDL) of the log, and as the topic of schema changes has them."""
