"""Producer ids, transactions and their markers."""
