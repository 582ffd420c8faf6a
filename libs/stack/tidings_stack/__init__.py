"""Real servers for tests, the demo and benchmarks: PostgreSQL, Kafka, Apicurio Registry, Kafka Connect with Debezium.

They are local processes on free loopback ports; nothing of them remains when their owner ends, however it ends.
"""

from tidings_stack.errors import NotSupportedError, ServerStartError, StackError
from tidings_stack.stack import Stack

__all__ = ["NotSupportedError", "ServerStartError", "Stack", "StackError"]
