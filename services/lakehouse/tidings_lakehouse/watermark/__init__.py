"""Up to which commit a source is whole: END markers, the transaction log, stored offsets."""
