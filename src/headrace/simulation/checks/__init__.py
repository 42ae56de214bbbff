"""What must hold during a run and at its end, as seen from inside the nodes and by reading everything back; it looks
and changes nothing.
"""
