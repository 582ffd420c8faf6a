"""Processes that outlive their owner: the guard of one server, and the keeper of a whole stack."""
