"""Access as this node sees it: rules compiled from the image, credentials, quotas in use, and the audit's way out; it
decides nothing by itself.
"""
