"""The consumer group: Faust as the transport."""
