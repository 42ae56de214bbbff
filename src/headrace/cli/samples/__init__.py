"""Files that `headrace demo` lays out."""
