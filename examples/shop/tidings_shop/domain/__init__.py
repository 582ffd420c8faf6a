"""The bike store's domain: what its tables mean (`aggregates`), what is news (`rules`), and how the news is told to
those who still read an older version (`versions`).

`TIDINGS_DOMAIN=tidings_shop.domain` names this package to the sequencer and the translator.
"""
