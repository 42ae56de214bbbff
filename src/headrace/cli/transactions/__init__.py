"""`headrace transactions`: which are open, on what, and how to end one; may touch `client`."""
