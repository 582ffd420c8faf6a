"""PostgreSQL types as Debezium represents them: one module per family, `selection` chooses."""
