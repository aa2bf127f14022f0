"""A mock server that does to a bot everything that can happen to it, and reports what the bot gets wrong."""
