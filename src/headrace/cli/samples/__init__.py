"""Files that the tour and the README show: a pipeline and its messages; touches nothing."""
