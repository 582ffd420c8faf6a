"""Faults of the way from PostgreSQL to the lake: tables and traffic, the job, random schedules, what has to be true."""
