"""What both stages are: a process with a consumer group, a transactional sink and health pages."""
