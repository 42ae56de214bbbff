"""`headrace users`: who can log in with a password; may touch stdin, files and `client`."""
