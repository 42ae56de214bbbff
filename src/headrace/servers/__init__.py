"""Ways in. They translate, never decide, and do not know each other."""
