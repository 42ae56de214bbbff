"""Bytes to values and back: frames, messages and record batches; pure, and knows of the house only `model`."""
