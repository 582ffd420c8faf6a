"""The error of a value that does not fit what is asked of it."""


class DataError(Exception):
    """A record that a transform cannot work on. The message names fields and types, never a value."""
