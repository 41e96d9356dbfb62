"""EC2: what moto forgives, and the life of instances."""
