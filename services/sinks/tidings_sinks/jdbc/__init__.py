"""Tables of databases, with the class and options of the JDBC sink of Debezium."""
