"""Turns a transaction into change sets, one for each aggregate that it touched."""
