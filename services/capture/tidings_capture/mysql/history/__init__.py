"""Debezium's schema history, which is written so that a connector can move back."""
