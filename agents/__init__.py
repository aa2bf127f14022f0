"""Whatever sits at the table: scripts, language models, bots and people."""
