"""Headrace for Spark: a source, a sink and pipelines, from plain pip."""
