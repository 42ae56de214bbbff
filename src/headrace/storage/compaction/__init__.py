"""Keep the newest record of each key: what is cleaned, what stays of it, and how the cleaned bytes take their place."""
