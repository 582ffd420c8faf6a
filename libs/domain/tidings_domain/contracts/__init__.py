"""The contracts of business events: files, compatibility, generated classes, documentation, registration."""
