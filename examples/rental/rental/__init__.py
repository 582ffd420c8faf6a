"""What the tables of rental mean, and what of it is news."""
