"""``tidings sinks rebuild``: a read model that is built anew from its topics beside the live one, and takes its place."""
