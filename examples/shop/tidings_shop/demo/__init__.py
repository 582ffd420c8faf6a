"""`tidings-demo`: the whole pipeline under a minute of shop traffic, watched live, and checked at the end."""
