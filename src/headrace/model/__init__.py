"""The words that the whole house speaks: identifiers, error codes, refusals and faults; pure, and may touch nothing
else of the house.
"""
