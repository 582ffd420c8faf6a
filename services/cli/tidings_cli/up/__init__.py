"""``tidings up``: the whole pipeline of a project on this machine."""
