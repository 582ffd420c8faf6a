"""The captured server: its catalogs, slot, publication, replica identities and event trigger."""
