"""Former names of what transforms in Python import: they work for one more release, with a warning."""
