"""Random faults on the way from a source's topics to a sink's target."""
