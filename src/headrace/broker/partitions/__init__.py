"""One partition as a node serves it: what may be written, who waits, what consumers and followers read; it touches logs
and replica minds, and no other node.
"""
