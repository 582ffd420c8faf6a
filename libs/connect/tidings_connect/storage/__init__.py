"""What a worker's group knows: the config, status and offsets topics, or memory and a file in a standalone worker."""
