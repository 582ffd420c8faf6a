"""Keeps tables readable and within their retention."""
