"""What every command returns, and how a change of very many partitions is cut into slices; may touch the image."""
