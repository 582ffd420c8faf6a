"""The worker's properties: their table, how values are read by it, and the page that shows it."""
