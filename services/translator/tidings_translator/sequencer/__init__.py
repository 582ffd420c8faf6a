"""The sequencer: technical topics in, change sets out."""
