"""The snapshot of all captured tables at one moment."""
