"""Webhooks: records as HTTP requests."""
