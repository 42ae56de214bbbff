"""`headrace produce`, `consume` and `get`: messages between text and topics; may touch files, stdin, stdout and
`client`.
"""
