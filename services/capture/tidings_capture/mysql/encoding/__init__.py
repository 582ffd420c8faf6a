"""From cells to records, and from the log's bytes straight to encoded ones."""
