"""The language in which a domain is written: aggregates, rules, events, dates and times."""
