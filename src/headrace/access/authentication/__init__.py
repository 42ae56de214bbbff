"""Who somebody is: one exchange per way to prove it, and the rules that make a certificate's name a principal; may
touch the names of principals, and wire.
"""
