"""Records that could not be used, and the commands that deal with them."""
