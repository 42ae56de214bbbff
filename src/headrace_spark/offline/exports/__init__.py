"""`headrace export`: the plan, its tasks and the manifest of what was written; it knows nothing of imports."""
