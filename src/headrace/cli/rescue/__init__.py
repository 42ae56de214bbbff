"""`headrace rescue`: a data directory whose majority is lost, without any node; may touch `broker` and `storage`."""
