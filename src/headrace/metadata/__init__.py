"""The cluster as an immutable image, and the controller's decisions about it: commands become records and a response;
pure, and may touch wire and model alone.
"""
