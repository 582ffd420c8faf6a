"""``tidings init``: a project that runs, from what a database is like."""
