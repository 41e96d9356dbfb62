"""What every local cloud shares: a clock that is turned, a ledger of what bills, a log of requests."""
