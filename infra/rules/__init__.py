"""Rules with a name: what a plan may not do, why, and the way out. The docs' table, the tests and the message are this data."""
