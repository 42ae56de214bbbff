"""Where replicas go and how they are moved evenly, by consistent hashing and by counting; functions of their arguments,
which know no image.
"""
