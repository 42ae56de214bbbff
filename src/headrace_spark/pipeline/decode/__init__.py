"""From a record's bytes to the columns that the file declares, with Spark's own functions or in its Python workers."""
