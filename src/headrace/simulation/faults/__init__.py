"""What goes wrong in a run, drawn by the seed: it breaks machines, disks and routes, and never looks at what clients
saw.
"""
