"""Headers that capture adds to records."""
