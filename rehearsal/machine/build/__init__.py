"""What a machine is made of: the root file system, the container image's layer, the package repository inside."""
