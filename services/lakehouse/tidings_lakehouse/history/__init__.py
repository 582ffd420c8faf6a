"""What a table was: every version of each row, and the records that a log holds."""
