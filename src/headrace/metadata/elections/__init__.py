"""Who leads a partition, who may be elected, whose log goes on after an outage; may touch decisions and the image."""
