"""Change data capture from PostgreSQL, driven like Kafka Connect with Debezium."""
