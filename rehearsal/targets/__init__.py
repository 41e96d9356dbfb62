"""One module a kind of target: how its local cloud and everything around it is set up. Found by name, listed nowhere."""
