"""A mock server that puts a bot through everything that can happen, and reports what the bot gets wrong."""
