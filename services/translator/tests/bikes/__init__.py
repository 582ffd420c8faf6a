"""A small domain for the tests of the two stages: orders with lines, payments and a customer."""
