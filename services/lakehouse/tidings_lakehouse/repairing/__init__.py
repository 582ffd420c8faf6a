"""Has rows that the audit finds wrong told again by their source."""
