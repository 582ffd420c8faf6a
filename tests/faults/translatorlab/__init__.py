"""Faults of the whole way from PostgreSQL to business events: a store, its domain, its pipeline, and random schedules."""
