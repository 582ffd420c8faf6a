"""What differs between MariaDB and MySQL: one object for each, which the configuration names."""
