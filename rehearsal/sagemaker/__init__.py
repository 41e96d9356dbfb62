"""What SageMaker does with real containers: the machine that runs and builds them, and the registry that keeps their images."""
