"""Fills a generation from the lakehouse's log."""
