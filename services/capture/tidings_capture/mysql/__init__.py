"""MariaDB by its binary log."""
