"""Systems Manager: public parameters, the agent's work on a machine, sessions."""
