"""`headrace export` and `import`: topics to Parquet files and back; may touch `headrace_spark`."""
