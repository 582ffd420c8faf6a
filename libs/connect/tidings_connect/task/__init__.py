"""A task's process, and both ends of the pipes between it and the worker."""
