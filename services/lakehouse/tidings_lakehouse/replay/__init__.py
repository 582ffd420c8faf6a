"""Evaluates a domain's rules over the logs, in Spark."""
