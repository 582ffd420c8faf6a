"""The ledger in which the generations of the rules agree on who publishes."""
