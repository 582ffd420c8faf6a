"""Configurations of workers and connectors: their options, checks, secrets and providers."""
