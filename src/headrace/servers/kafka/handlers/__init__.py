"""One file per API, in rooms by subject: a message in, a message out."""
