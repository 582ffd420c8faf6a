"""What converting a column means, and the forms of times that every database shares."""
