"""How a client proves who it is, and knows whom it talks to: Kafka's usual settings as values, and its side of each
login; it knows no connection.
"""
