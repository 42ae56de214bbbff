"""How much clients may use: set, removed and shown."""
