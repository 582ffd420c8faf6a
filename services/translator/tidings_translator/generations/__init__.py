"""What the command does with generations of the rules: start, compare, promote, correct, discard."""
