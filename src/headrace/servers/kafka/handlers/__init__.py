"""One file per API: a message in, a message out."""
