"""Initial and blocking snapshots, as every database has them."""
