"""The services as local processes on the stack, and a live picture of them: what the demo and `tidings up` share."""
