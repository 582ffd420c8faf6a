"""The worker's properties for its REST API: who may speak to it, how wrong guesses are slowed, which headers it adds."""
