"""The cluster as a whole: its nodes, voters, features and API versions."""
