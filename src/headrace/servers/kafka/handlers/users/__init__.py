"""Logging in, and who can: both of SASL's requests, and the passwords that users have."""
