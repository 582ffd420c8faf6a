"""Compares current states with the database."""
