"""What Java does that Connect's bytes depend on."""
