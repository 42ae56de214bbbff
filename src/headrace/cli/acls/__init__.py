"""`headrace acls`: who may do what; may touch `client`."""
