"""The stand-in for vLLM: a small OpenAI-compatible server that runs in a real container. Standard library only."""
