"""Bugs that are planted in a copy of the source, one at a time, to see which test catches each: `make planted`."""
