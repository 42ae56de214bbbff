"""Reading chosen partitions from chosen offsets; it knows no groups."""
