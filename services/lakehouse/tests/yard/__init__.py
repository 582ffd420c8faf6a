"""A domain for the replay's tests: a key that is a text, a child that moves, children's children, references of references."""
