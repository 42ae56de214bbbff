"""The mind of one replica: its offsets, its epochs, the producers that write to it and their open transactions; pure,
and may touch wire and model alone.
"""
