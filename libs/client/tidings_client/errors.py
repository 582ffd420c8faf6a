"""The one error of the library."""


class ClientError(Exception):
    """Something is wrong with the settings, the broker, the registry or an event.

    The message names the setting or the event's position; it never holds a value of the event or a password.
    """
