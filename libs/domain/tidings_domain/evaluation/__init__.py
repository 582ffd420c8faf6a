"""Evaluates the rules on a change set: new state, business events, failures."""
