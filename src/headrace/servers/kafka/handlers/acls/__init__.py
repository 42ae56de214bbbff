"""Access rules, of which there are none: each request is answered with that."""
