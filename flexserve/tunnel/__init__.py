"""How an operator reaches a server that lets nobody in: a port on loopback, whatever the target."""
