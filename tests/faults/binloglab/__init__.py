"""MariaDB's and MySQL's connectors under faults, exactly once."""
