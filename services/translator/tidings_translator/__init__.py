"""From technical to business events: the domain's language, the sequencer and the translator."""
