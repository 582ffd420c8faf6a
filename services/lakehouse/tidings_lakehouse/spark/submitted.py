"""Whether ``spark-submit`` has started this process, which pyspark tells by two variables of the environment."""

import os

PORT = "PYSPARK_GATEWAY_PORT"
SECRET = "PYSPARK_GATEWAY_SECRET"  # noqa: S105 - a variable's name


def is_submitted() -> bool:
    """Whether ``spark-submit`` has started this process, and before it the JVM that the session is to use; False once there is a session."""
    return PORT in os.environ


def forget_gateway() -> None:
    """Tell no process that this one starts, such as an audit, of the JVM; pyspark has connected to it."""
    for name in (PORT, SECRET):
        os.environ.pop(name, None)
