"""One replica's mind: offsets, epochs, producer sequences. Pure."""
