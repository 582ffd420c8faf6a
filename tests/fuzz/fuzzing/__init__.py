"""Random input at every way in, and what must hold whatever it is: see `running`."""
