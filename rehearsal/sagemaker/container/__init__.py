"""What AWS lays around vLLM in its container, in our own spelling of the documented rules. Copied into the local base image."""
