"""Documents in MongoDB, with the class and the options of MongoDB's own connector."""
