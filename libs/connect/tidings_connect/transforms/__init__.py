"""Single message transforms: Kafka Connect's and Debezium's own, and transforms written in Python.

A connector with ``transforms`` sends its records through a chain before they are converted. The plan then writes them
with an intermediate converter (`intermediate`), whose bytes `output` turns back into values and schemas, because
transforms work on those; without transforms nothing of this package runs.
"""
