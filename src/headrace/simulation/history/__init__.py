"""What clients were told during a run, and whether the logs keep it; pure, it asks no node."""
