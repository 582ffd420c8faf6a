"""Records that could not be used, and what is asked about them."""
