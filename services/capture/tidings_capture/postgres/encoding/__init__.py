"""From PostgreSQL's rows to encoded records: generated code, plans, routes, the source block, the way out."""
