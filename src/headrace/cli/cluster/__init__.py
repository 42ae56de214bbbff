"""`headrace cluster`: its health, replicas that move, files that are checked; may touch `client`."""
