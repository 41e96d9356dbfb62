"""The booted machine: a real system under systemd-nspawn, its stand-ins, and what it leaves on this host."""
