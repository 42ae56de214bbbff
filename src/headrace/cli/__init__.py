"""The `headrace` command; the one place where parts are chosen."""
