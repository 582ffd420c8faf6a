"""Servers that ask for TLS, passwords and tokens, and what issues these."""
