"""Topics to Parquet files and back: Spark shares out the work; tasks read, write and send without passing the JVM."""
