"""The bike store: tables, traffic, aggregates and rules, and the demo."""
