"""The metadata log of a cluster as this node keeps, agrees on and applies it, and the controller's work where it leads;
it sends through whoever is handed in.
"""
