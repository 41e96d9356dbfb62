"""A SageMaker endpoint as an OpenAI server on loopback: requests are signed with the operator's credentials."""
