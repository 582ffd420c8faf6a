"""An aggregate's rows and state, and how a change set moves them on."""
