"""`headrace groups` and `lag`: who reads what, how far, and where they go on; may touch `client`."""
