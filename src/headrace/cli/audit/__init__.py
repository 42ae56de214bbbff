"""`headrace audit`: who did what, from the topic of a cluster or the files of a node; may touch files and `client`."""
