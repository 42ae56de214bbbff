"""Headrace for Spark, a guest of the house: source, sink, pipelines, export and import, over `model`, `wire` and
`client` alone.
"""
