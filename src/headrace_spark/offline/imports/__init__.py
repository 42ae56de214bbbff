"""`headrace import`: what is sent in which order, its tasks and their rate limit; it reads the plans and manifests of
exports.
"""
