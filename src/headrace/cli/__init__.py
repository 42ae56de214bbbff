"""The `headrace` command and the one place where parts are chosen: a room per noun, loaded when it is called; may use
everything below.
"""
