"""Identity-Aware Proxy's TCP relay, spoken natively: one WebSocket a connection, resumable."""
