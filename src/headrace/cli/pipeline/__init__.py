"""`headrace pipeline`: run a pipeline from its file, and look after those that run; may touch `headrace_spark`."""
