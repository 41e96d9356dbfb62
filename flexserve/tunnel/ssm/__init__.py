"""An EC2 machine behind Session Manager: AWS's own session-manager-plugin, supervised."""
