"""The translator: change sets in, business events out."""
