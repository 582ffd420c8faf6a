"""The connector's options by subject: type, default, checks, meaning and what its page says, in one place each."""
