"""From the log to records: transactions, prepared ones, and who looks on."""
