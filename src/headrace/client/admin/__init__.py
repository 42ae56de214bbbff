"""What an operator asks of a cluster: topics, settings, replicas, groups, transactions."""
