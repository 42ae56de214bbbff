"""A pipeline's TOML file as checked values, and its mistakes with line and hint; neither Spark nor a cluster is
touched.
"""
