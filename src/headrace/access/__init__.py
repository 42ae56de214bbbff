"""Who somebody is, what they may do, and how much: decisions that touch nothing; time and chance are handed in, and it
may touch wire and model alone.
"""
