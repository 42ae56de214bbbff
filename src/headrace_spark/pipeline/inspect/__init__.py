"""What can be told of a pipeline without running it: `validate` and `explain`; nothing is written."""
