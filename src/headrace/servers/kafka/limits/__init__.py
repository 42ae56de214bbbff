"""How much memory, how many waiting fetches and how large an answer clients may cost; numbers only, no sockets."""
