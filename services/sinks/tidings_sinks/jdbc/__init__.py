"""Tables of PostgreSQL and SQLite, with the class and options of the JDBC sink of Debezium."""
