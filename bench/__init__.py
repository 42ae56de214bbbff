"""Speed, measured against a live node: `python -m bench`, or `make bench`. See README.md beside this file."""
