"""PostgreSQL's bytes: pgoutput's messages and transactions, COPY's text. Pure."""
