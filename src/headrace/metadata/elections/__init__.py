"""Who leads a partition, who may be elected, and whose log goes on after outage; may touch decisions and the image."""
