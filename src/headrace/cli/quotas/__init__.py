"""`headrace quotas`: how much users, client ids and addresses may use; may touch `client`."""
