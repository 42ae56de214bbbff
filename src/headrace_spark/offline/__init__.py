"""Topics to Parquet files and back. Spark shares the work out; tasks read, write and send without passing the JVM."""
