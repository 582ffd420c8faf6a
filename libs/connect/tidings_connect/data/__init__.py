"""Connect's values by themselves: schemas, values as text and back, sizes."""
