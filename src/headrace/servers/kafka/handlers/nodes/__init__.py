"""What nodes ask each other; served only where nodes listen for each other."""
