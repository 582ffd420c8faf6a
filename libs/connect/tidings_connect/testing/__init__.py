"""For authors of connectors: a worker in memory, and the contract that every connector keeps."""
