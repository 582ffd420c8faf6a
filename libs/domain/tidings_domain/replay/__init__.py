"""Evaluates a domain's rules over a stored history."""
