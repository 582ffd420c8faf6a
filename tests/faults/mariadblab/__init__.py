"""MariaDB's connector under faults, exactly once."""
