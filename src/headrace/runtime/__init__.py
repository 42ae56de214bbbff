"""Clock, disk, network, threads and chance: one small Protocol and one real class each."""
