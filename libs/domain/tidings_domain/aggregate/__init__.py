"""Keeps an aggregate's rows and state, and applies change sets to them."""
