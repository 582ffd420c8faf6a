"""Loads a domain's package and checks it as a whole."""
