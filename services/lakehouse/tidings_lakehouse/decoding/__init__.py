"""From records to rows: columns, reader's schemas, changes and business events."""
