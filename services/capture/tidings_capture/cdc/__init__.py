"""What change data capture shares, whatever the database: options, names, filters, signals, context. Knows no client."""
