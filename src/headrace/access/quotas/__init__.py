"""How much somebody may use: whom a quota is for, and buckets of tokens; may touch the names of principals."""
