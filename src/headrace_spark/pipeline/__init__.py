"""Pipelines as files: what a TOML file says, made into Spark's streaming queries."""
