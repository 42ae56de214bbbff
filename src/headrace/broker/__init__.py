"""A living node: joins each mind to its disk, timers and peers."""
