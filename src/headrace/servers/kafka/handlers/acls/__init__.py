"""Access rules: created, deleted and shown, where they are obeyed."""
