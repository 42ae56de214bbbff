"""Consumer groups: classic ones, those of KIP-848, and the offsets of both."""
