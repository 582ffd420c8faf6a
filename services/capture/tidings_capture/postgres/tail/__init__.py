"""``tidings-capture tail``: a database's changes on a terminal, with no Kafka."""
